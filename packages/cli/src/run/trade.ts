/** What begins runs: schedules, the worker of a queue, an interval. */
export interface Trade {
  /** Takes work from now on. */
  start(): void;
  /**
   * Takes no more work, at once; lets what runs go on for `graceMs`; then aborts it. Resolves when that has settled and its leases are
   * given back, which may be never, if it ignores its signal.
   */
  stop(graceMs: number): Promise<unknown>;
}
