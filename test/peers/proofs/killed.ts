import { setTimeout as sleep } from 'node:timers/promises';

import { lateText, lateWrites, noSuccessor, seconds } from '../judge.ts';
import { ACCEPTED } from '../ledger.ts';
import type { Proof } from './proof.ts';

export const killed: Proof = {
  name: 'killed',
  title: '1 killed',
  rule: 'SIGKILL while a write of the owner is on its way; the network delivers it when the next owner is at work. It must not be accepted.',
  async play(stage) {
    const [a, b] = await stage.owners(['a', 'b']);
    if (a === undefined || b === undefined) throw new Error('two owners are needed');
    await stage.begin(a, b);
    const underWay = stage.ledgerProxy.nextRequest(ACCEPTED);
    stage.ledgerProxy.hold('up');
    const early = a.over.then(() => {
      throw new Error('the owner stopped before it was killed');
    });
    await Promise.race([underWay, early]);
    const killedMs = Date.now();
    await a.child.kill9();
    const nextMs = await stage.takeOver(b);
    if (nextMs === null) return noSuccessor(stage);
    const { replies } = stage.ledgerProxy.counters;
    stage.ledgerProxy.pass();
    // Its answer, accepted or refused, comes back to a proxy with nobody behind it.
    for (let tries = 0; stage.ledgerProxy.counters.replies === replies; tries++) {
      if (tries === 500) throw new Error('the held write was never answered');
      await sleep(10);
    }
    const accepted = await stage.accepted();
    const late = lateWrites(accepted, a, b);
    return {
      verdict: late.length === 0 ? 'holds' : 'fails',
      text: `${lateText(late)}; next owner after ${seconds(nextMs - killedMs)}`,
      measured: { lateWrites: late.length, takeOverMs: nextMs - killedMs },
    };
  },
};
