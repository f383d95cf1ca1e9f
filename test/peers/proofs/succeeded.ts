import { lateText, lateWrites, noSuccessor, seconds, SLACK_MS, tokenOf } from '../judge.ts';
import type { Proof } from './proof.ts';

export const succeeded: Proof = {
  name: 'succeeded',
  title: '6 succession',
  rule: 'The first owner is killed; then, under the second one, the store is restarted with nothing in it. Each successor must begin within a lease, the resource must have a larger token from each, and nothing of the second may be accepted beside the third.',
  async play(stage) {
    const [a, b, c] = await stage.owners(['a', 'b', 'c']);
    if (a === undefined || b === undefined || c === undefined) throw new Error('three owners are needed');
    await stage.begin(a, b);
    const killedMs = Date.now();
    await a.child.kill9();
    const secondMs = await stage.takeOver(b);
    if (secondMs === null) return noSuccessor(stage);
    await stage.contend(c);
    await stage.store.kill();
    await stage.store.restart();
    const restartedMs = Date.now();
    const thirdMs = await stage.takeOver(c);
    if (thirdMs === null) return noSuccessor(stage);
    await stage.watch(b, stage.leaseMs * 1.5);
    const accepted = await stage.accepted();
    const late = lateWrites(accepted, b, c);
    const tokens = [a, b, c].map((owner) => tokenOf(accepted, owner));
    const growing = tokens.every((token, at) => token !== null && token > (tokens[at - 1] ?? 0));
    const takeOvers = [secondMs - killedMs, thirdMs - restartedMs];
    const inTime = takeOvers.every((ms) => ms <= stage.leaseMs + SLACK_MS);
    const token = growing ? 'tokens grow' : tokens.every((its) => its === null) ? 'no token' : 'tokens do not grow';
    return {
      verdict: inTime && growing && late.length === 0 ? 'holds' : 'fails',
      text: `${takeOvers.map(seconds).join(' and ')}; ${token}; ${lateText(late)}`,
      measured: {
        takeOverMs: secondMs - killedMs,
        takeOverOfEmptyMs: thirdMs - restartedMs,
        tokensGrow: growing,
        lateWrites: late.length,
      },
    };
  },
};
