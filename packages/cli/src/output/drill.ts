import type { Duration } from '@leasehold/core';
import type { ProofResult, Times } from '../drill/drill.ts';
import type { Output } from './output.ts';
import type { Tone } from './style.ts';

/** What a drill was about, for its reports. */
export interface DrillAbout {
  /** The store, for people: never with a password. */
  readonly target: string;
  readonly fence: string;
  readonly ttl: Duration;
  readonly began: Date;
}

const TONES: Readonly<Record<ProofResult['verdict'], Tone>> = { proven: 'good', failed: 'bad' };

/** A row for each proof, then what speaks against those that failed. */
export async function drillView(output: Output, results: readonly ProofResult[]): Promise<void> {
  await output.table(
    [
      { title: 'PROOF' },
      { title: 'VERDICT' },
      { title: 'RUNS', align: 'right' },
      { title: 'ABORT', align: 'right' },
      { title: 'TAKEOVER', align: 'right' },
      { title: 'WRITES', align: 'right' },
      { title: 'REFUSED', align: 'right' },
      { title: 'OF', yields: 'first' },
    ],
    results.map(({ proof, verdict, runs, proven, abort, takeover, acceptedWrites, refusedWrites }) => [
      { text: proof.name },
      { text: verdict.toUpperCase(), tone: TONES[verdict] },
      { text: `${proven}/${runs}` },
      { text: timesText(abort) },
      { text: timesText(takeover) },
      { text: String(acceptedWrites) },
      { text: String(refusedWrites) },
      { text: proof.fault },
    ]),
  );
  for (const { proof, verdict, shown } of results) {
    if (verdict === 'proven') continue;
    output.heading(`${proof.name}: ${proof.claim}`);
    for (const failure of shown.failures) for (const line of failure.split('\n')) output.line(line);
  }
  output.note(summaryOf(results));
}

/** `12 ms`, of several runs `p50 12, max 30 ms`. */
export function timesText(times: Times | null): string {
  if (times === null) return '-';
  const [p50, max] = [Math.round(times.p50Ms), Math.round(times.maxMs)];
  return p50 === max ? `${p50} ms` : `${p50}, max ${max} ms`;
}

/** `6 proven, 0 failed`. */
export function summaryOf(results: readonly ProofResult[]): string {
  const count = (verdict: ProofResult['verdict']): number => results.filter((its) => its.verdict === verdict).length;
  return `${count('proven')} proven, ${count('failed')} failed`;
}

/** The fields of `leasehold/drill/v1`. */
export function drillJson(results: readonly ProofResult[], about: DrillAbout): object {
  return {
    target: about.target,
    fence: about.fence,
    ttl: about.ttl,
    began: about.began,
    isProven: results.every(({ verdict }) => verdict !== 'failed'),
    proofs: results.map(({ proof, shown, ...its }) => ({
      name: proof.name,
      fault: proof.fault,
      claim: proof.claim,
      abortSince: proof.abortSince,
      ...its,
      expectations: shown.expectations,
      failures: shown.failures,
      waived: shown.waived,
    })),
  };
}
