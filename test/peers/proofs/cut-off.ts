import { lateText, lateWrites, noSuccessor, overlapMs, seconds, stoppedAfterMs, told } from '../judge.ts';
import type { Stage } from '../stage.ts';
import type { Proof } from './proof.ts';

const rule =
  'The owner hears nothing more of the store, and reaches the resource. Two leases after somebody else has begun, the network heals. No write of the first may be accepted beside the other, and the other must not be disturbed.';

export const cutOff: Proof = { name: 'cut-off', title: '3 cut off', rule, play };

/** Fair to those who rely on their client to give up: few pages say it, many people set it. */
export const cutOffWithTimeout: Proof = {
  name: 'cut-off-timeout',
  title: '3b cut off, `commandTimeout` set',
  rule: 'The same, with `commandTimeout` of a sixth of the lease at the ioredis client that the library was given.',
  commandTimeoutMs: (leaseMs) => leaseMs / 6,
  notFor: (peer) => (peer.takesCommandTimeout ? null : 'no setting of it'),
  play,
};

async function play(stage: Stage) {
  const [a, b] = await stage.owners(['a', 'b']);
  if (a === undefined || b === undefined) throw new Error('two owners are needed');
  await stage.begin(a, b);
  const cutMs = Date.now();
  stage.storeProxy.hold('up', 'down');
  const nextMs = await stage.takeOver(b);
  if (nextMs === null) return noSuccessor(stage);
  await stage.watch(b, stage.leaseMs * 2);
  stage.storeProxy.pass();
  const endMs = await stage.watch(b, stage.leaseMs);
  const accepted = await stage.accepted();
  const late = lateWrites(accepted, a, b);
  const stoppedMs = await stoppedAfterMs(stage, a, cutMs, endMs);
  const isDisturbed = (await stoppedAfterMs(stage, b, cutMs, endMs)) !== null;
  const disturbed = isDisturbed ? '; the next owner lost it when the network healed' : '';
  return {
    verdict: late.length === 0 && !isDisturbed ? 'holds' : 'fails',
    text: `${lateText(late)}; ${told(stoppedMs, await a.crash(), endMs - cutMs)}, the next began at ${seconds(nextMs - cutMs)}${disturbed}`,
    measured: {
      lateWrites: late.length,
      overlapMs: overlapMs(accepted, a, b),
      stoppedMs,
      takeOverMs: nextMs - cutMs,
      isDisturbed,
    },
  } as const;
}
