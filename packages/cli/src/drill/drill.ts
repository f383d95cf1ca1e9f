import { availableParallelism } from 'node:os';
import type { Measure, Stage } from './scene.ts';
import type { Proof } from './proofs.ts';
import { runProof, type ProofRun } from './run-proof.ts';

/** Of the runs of one proof. */
export interface Times {
  readonly p50Ms: number;
  readonly maxMs: number;
  /** None may be longer. */
  readonly boundMs: number;
}

export interface ProofResult {
  readonly proof: Proof;
  readonly verdict: 'proven' | 'failed';
  /** Why it failed; else empty. */
  readonly why: string;
  readonly runs: number;
  readonly proven: number;
  readonly abort: Times | null;
  readonly takeover: Times | null;
  /** Of all runs. */
  readonly acceptedWrites: number;
  readonly refusedWrites: number;
  readonly tookMs: number;
  /** The first that failed, else the last one. */
  readonly shown: ProofRun;
}

export interface DrillOptions {
  readonly proofs: readonly Proof[];
  /** How often each is played, one time after the other. */
  readonly repeat: number;
  /** Called after each run. */
  readonly onRun: (run: ProofRun, index: number) => void;
}

const LEAST_LANES = 3;

/**
 * Plays proofs, some of them at the same time: each has its own resource and its own processes. Resolves in the order in which
 * they were given. Rejects, with everything ended, if one could not be played.
 */
export async function drill(stage: Stage, { proofs, repeat, onRun }: DrillOptions): Promise<readonly ProofResult[]> {
  const results = new Map<Proof, ProofResult>();
  const waiting = [...proofs];
  // Two processes each, which mostly wait.
  const lanes = Math.min(waiting.length, Math.max(LEAST_LANES, availableParallelism()));
  const lane = async (): Promise<void> => {
    for (let proof = waiting.shift(); proof !== undefined; proof = waiting.shift()) {
      results.set(proof, await playAll(stage, proof, repeat, onRun));
    }
  };
  const ends = await Promise.allSettled(Array.from({ length: lanes }, lane));
  const failed = ends.find((end) => end.status === 'rejected');
  if (failed !== undefined) throw failed.reason;
  return proofs.flatMap((proof) => results.get(proof) ?? []);
}

async function playAll(stage: Stage, proof: Proof, repeat: number, onRun: DrillOptions['onRun']): Promise<ProofResult> {
  const aborts: Measure[] = [];
  const takeovers: Measure[] = [];
  let sum: Sum | undefined;
  for (let index = 0; index < repeat; index++) {
    stage.signal.throwIfAborted();
    const run = await runProof(stage, proof);
    onRun(run, index);
    if (run.abort !== undefined) aborts.push(run.abort);
    if (run.takeover !== undefined) takeovers.push(run.takeover);
    sum = added(sum, run);
  }
  if (sum === undefined) throw new Error('a proof is played at least once');
  return { proof, ...sum, abort: timesOf(aborts), takeover: timesOf(takeovers) };
}

type Sum = Omit<ProofResult, 'proof' | 'abort' | 'takeover'>;

function added(sum: Sum | undefined, run: ProofRun): Sum {
  const failed = sum?.verdict === 'failed' ? sum : undefined;
  return {
    verdict: run.isProven ? (sum?.verdict ?? 'proven') : 'failed',
    why: failed?.why ?? run.failures[0] ?? '',
    runs: (sum?.runs ?? 0) + 1,
    proven: (sum?.proven ?? 0) + (run.isProven ? 1 : 0),
    acceptedWrites: (sum?.acceptedWrites ?? 0) + run.counts.acceptedWrites,
    refusedWrites: (sum?.refusedWrites ?? 0) + run.counts.refusedWrites,
    tookMs: (sum?.tookMs ?? 0) + run.tookMs,
    shown: failed?.shown ?? run,
  };
}

function timesOf(measures: readonly Measure[]): Times | null {
  const sorted = measures.map(({ ms }) => ms).sort((a, b) => a - b);
  const [{ boundMs } = { boundMs: 0 }] = measures;
  if (sorted.length === 0) return null;
  return { p50Ms: sorted[Math.floor(sorted.length / 2)] ?? 0, maxMs: sorted.at(-1) ?? 0, boundMs };
}
