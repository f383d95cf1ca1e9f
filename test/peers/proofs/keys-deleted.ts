import { lateText, lateWrites, overlapMs, seconds, SLACK_MS, stoppedAfterMs, told } from '../judge.ts';
import type { Proof } from './proof.ts';

export const keysDeleted: Proof = {
  name: 'keys-deleted',
  title: '5 keys deleted by hand',
  rule: 'Everything that the store has of the lock is deleted while the owner acts. It must stop within one interval of its extensions; what was accepted from it until then stands beside it.',
  async play(stage) {
    const [a, b] = await stage.owners(['a', 'b']);
    if (a === undefined || b === undefined) throw new Error('two owners are needed');
    await stage.begin(a, b);
    const deletedMs = Date.now();
    const deleted = await stage.deleteKeys();
    if (deleted === 0) throw new Error('there was nothing to delete');
    const nextMs = await stage.takeOver(b);
    const endMs = await stage.watch(a, stage.leaseMs * 2);
    const accepted = await stage.accepted();
    const late = lateWrites(accepted, a, b);
    const stoppedMs = await stoppedAfterMs(stage, a, deletedMs, endMs);
    const next = nextMs === null ? 'nobody else began' : `the next began at ${seconds(nextMs - deletedMs)}`;
    return {
      verdict: stoppedMs !== null && stoppedMs <= stage.renewMs + SLACK_MS ? 'holds' : 'fails',
      text: `${told(stoppedMs, await a.crash(), endMs - deletedMs)}, ${next}; ${lateText(late)}`,
      measured: {
        deleted,
        stoppedMs,
        takeOverMs: nextMs === null ? null : nextMs - deletedMs,
        lateWrites: late.length,
        overlapMs: overlapMs(accepted, a, b),
      },
    };
  },
};
