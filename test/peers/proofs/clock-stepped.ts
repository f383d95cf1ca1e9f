import { find } from '../../../scripts/services/binaries.mjs';
import { thisMachine } from '../../../scripts/services/machine.mjs';
import { FakeTime } from '../../support/faketime.ts';
import { lateText, lateWrites, stoppedAfterMs, told } from '../judge.ts';
import { ATTEMPTS, entries } from '../ledger.ts';
import type { Proof } from './proof.ts';

export const clockStepped: Proof = {
  name: 'clock-stepped',
  title: '4 clock stepped forward',
  rule: "The owner's wall clock goes ten leases forward. It must take the lock for gone within a lease.",
  notFor: () => (find('faketime', thisMachine).path === null ? 'no libfaketime here' : null),
  async play(stage) {
    using clock = new FakeTime();
    const [a, b] = await stage.owners(['a', 'b'], clock);
    if (a === undefined || b === undefined) throw new Error('two owners are needed');
    await stage.begin(a, b);
    const steppedMs = Date.now();
    clock.step(stage.leaseMs * 10);
    const watchMs = stage.leaseMs * 2;
    const endMs = await stage.watch(a, watchMs);
    const accepted = await stage.accepted();
    const late = lateWrites(accepted, a, b);
    const stoppedMs = await stoppedAfterMs(stage, a, steppedMs, endMs);
    const last = (await entries(stage.ledger, ATTEMPTS)).findLast(({ owner }) => owner === a.name);
    if (stoppedMs === null && (last?.wallMs ?? 0) - (last?.atMs ?? 0) < stage.leaseMs * 9) {
      throw new Error("the owner's clock was not stepped");
    }
    // Not a danger by itself: the store goes by its own clock, and has the lock extended.
    const alone = stoppedMs === null && !accepted.some(({ owner }) => owner === b.name) ? ', alone' : '';
    return {
      verdict: stoppedMs !== null && stoppedMs <= stage.leaseMs && late.length === 0 ? 'holds' : 'fails',
      text: `${told(stoppedMs, await a.crash(), watchMs)}${alone}; ${lateText(late)}`,
      measured: { stoppedMs, lateWrites: late.length },
    };
  },
};
