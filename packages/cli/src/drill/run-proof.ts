import type { Counts, History } from '@leasehold/core/testing/history';
import { historyOf, judge, type Judgement } from './judge.ts';
import { NotSeenError } from './owner-process.ts';
import type { Proof } from './proofs.ts';
import { Scene, type Expectation, type Measure, type Stage } from './scene.ts';
import { scratchResource } from './scratch.ts';
import { sharedMs } from './shared-clock.ts';

/** One run of one proof, with its verdict. */
export interface ProofRun {
  readonly proof: Proof;
  readonly isProven: boolean;
  readonly expectations: readonly Expectation[];
  /** All that speaks against it: expectations, broken rules, what did not come. */
  readonly failures: readonly string[];
  /** Rules that cannot be asked for under this fault. */
  readonly waived: Judgement['waived'];
  /** From the fault to the abort of the guarded section; undefined where the owner is dead. */
  readonly abort: Measure | undefined;
  /** From the fault to the first moment of the next owner. */
  readonly takeover: Measure | undefined;
  readonly counts: Counts;
  readonly history: History;
  readonly tookMs: number;
}

/** Plays a proof once on a resource of its own, which is removed. Rejects if it could not be played at all. */
export async function runProof(stage: Stage, proof: Proof): Promise<ProofRun> {
  const beganMs = sharedMs();
  const resource = scratchResource(proof.name);
  const failures: string[] = [];
  let lines: History['lines'];
  let expectations: readonly Expectation[];
  let measures: Pick<Scene, 'abort' | 'takeover'>;
  let fence: string;
  let endMs: number;
  {
    await using scene = await Scene.open(stage, resource, proof.isGated === true);
    try {
      await proof.play(scene);
    } catch (error) {
      if (!(error instanceof NotSeenError)) throw error;
      failures.push(error.message);
    }
    // Before they are killed: what they were about is not a call that never settled.
    endMs = sharedMs();
    ({ lines, expectations, fence } = scene);
    measures = { abort: scene.abort, takeover: scene.takeover };
  }
  const history = historyOf(lines, await stage.cleaner.ledger(resource), fence, endMs);
  await stage.cleaner.remove(resource);
  const { breaches, waived, counts } = judge(history, stage.timing);
  const unmet = expectations.filter(({ isMet }) => !isMet).map(({ what, seen }) => `not so: ${what} (${seen})`);
  failures.push(...unmet, ...breaches);
  const isProven = failures.length === 0;
  const tookMs = endMs - beganMs;
  return { proof, isProven, expectations, failures, waived, ...measures, counts, history, tookMs };
}
