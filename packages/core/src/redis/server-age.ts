import type { Clock } from '../clock.ts';

/**
 * What the connection knows of the server's life: learned from INFO at each connect, then counted on.
 *
 * Where INFO is not permitted, and on a Cluster, whose nodes live and die apart, nothing is known of it: the age is then
 * `Infinity`, so that nobody is kept waiting for a restart that did not happen.
 */
export class ServerAge {
  readonly #clock: Clock;
  #runId = '';
  #restarted = false;
  #ageMs = Infinity;
  #atMs = -1;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** `info` is the section server of INFO, or empty. */
  met(info: string, isCluster: boolean): void {
    const runId = /^run_id:(\w+)/m.exec(info)?.[1] ?? '';
    const seconds = /^uptime_in_seconds:(\d+)/m.exec(info)?.[1];
    this.#atMs = this.#clock.monotonicMs();
    if (isCluster) return;
    if (this.#runId !== '' && runId !== '' && runId !== this.#runId) this.#restarted = true;
    if (runId !== '') this.#runId = runId;
    this.#ageMs = seconds === undefined ? Infinity : Number(seconds) * 1000;
  }

  get told(): { readonly ageMs: number; readonly restarted: boolean; readonly runId: string | undefined } | undefined {
    if (this.#atMs < 0) return undefined;
    const ageMs = this.#ageMs + this.#clock.monotonicMs() - this.#atMs;
    return { ageMs, restarted: this.#restarted, runId: this.#runId === '' ? undefined : this.#runId };
  }
}
