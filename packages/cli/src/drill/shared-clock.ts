/** Milliseconds on CLOCK_MONOTONIC, which all processes of a machine share and nobody can step. */
export function sharedMs(): number {
  return Number(process.hrtime.bigint() / 1000n) / 1000;
}
