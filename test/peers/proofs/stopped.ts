import { setTimeout as sleep } from 'node:timers/promises';

import { stateOf } from '../../support/signals.ts';
import { lateText, lateWrites, noSuccessor, overlapMs, stoppedAfterMs, told } from '../judge.ts';
import { ATTEMPTS, entries } from '../ledger.ts';
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
    // It stops itself. A signal from here as well could reach it first, and its own then stop it for ever.
    for (let tries = 0; stateOf(a.child.pid) !== 'T'; tries++) {
      if (tries === 5_000) throw new Error('the owner lost its lock before it could be stopped');
      await sleep(1);
    }
    const nextMs = await stage.takeOver(b);
    const continuedMs = Date.now();
    a.child.cont();
    if (nextMs === null) return noSuccessor(stage);
    const watchMs = stage.leaseMs * 2;
    const endMs = await stage.watch(a, watchMs);
    const accepted = await stage.accepted();
    const late = lateWrites(accepted, a, b);
    const tried = (await entries(stage.ledger, ATTEMPTS)).filter(({ owner }) => owner === a.name);
    if ((tried.at(-1)?.atMs ?? 0) < continuedMs) throw new Error('the owner that was stopped did not go on');
    const stoppedMs = await stoppedAfterMs(stage, a, continuedMs, endMs);
    return {
      verdict: late.length === 0 ? 'holds' : 'fails',
      text: `${lateText(late)}; ${told(stoppedMs, await a.crash(), watchMs)}`,
      measured: { lateWrites: late.length, overlapMs: overlapMs(accepted, a, b), stoppedMs },
    };
  },
};
