import { stop } from '../../support/signals.ts';
import { lateText, lateWrites, noSuccessor, overlapMs, stoppedAfterMs, told } from '../judge.ts';
import type { Proof } from './proof.ts';

export const stopped: Proof = {
  name: 'stopped',
  title: '2 stopped past the lease',
  rule: 'SIGSTOP between its check and its write, until the next owner is at work; then SIGCONT. No write may be accepted from it then.',
  async play(stage) {
    const [a, b] = await stage.owners(['a', 'b']);
    if (a === undefined || b === undefined) throw new Error('two owners are needed');
    await stage.begin(a, b);
    a.child.send('stand');
    await a.child.next('standing');
    await stop(a.child.pid);
    const nextMs = await stage.takeOver(b);
    a.child.cont();
    if (nextMs === null) return noSuccessor(stage);
    const continuedMs = Date.now();
    const watchMs = stage.leaseMs * 2;
    const endMs = await stage.watch(a, watchMs);
    const accepted = await stage.accepted();
    const late = lateWrites(accepted, a, b);
    const stoppedMs = await stoppedAfterMs(stage, a, continuedMs, endMs);
    return {
      verdict: late.length === 0 ? 'holds' : 'fails',
      text: `${lateText(late)}; ${told(stoppedMs, await a.crash(), watchMs)}`,
      measured: { lateWrites: late.length, overlapMs: overlapMs(accepted, a, b), stoppedMs },
    };
  },
};
