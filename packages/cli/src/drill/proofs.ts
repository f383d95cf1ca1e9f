import type { Scene } from './scene.ts';
import { sharedMs } from './shared-clock.ts';

/** A failure that is rehearsed, and what has to be so afterwards. */
export interface Proof {
  readonly name: string;
  /** What is done, in a few words: the fault. */
  readonly fault: string;
  /** What has to be so. */
  readonly claim: string;
  /** From when the abort of the guarded section is counted; null where the owner is dead. */
  readonly abortSince: string | null;
  /** Whether a gate is needed between owner and store. */
  readonly isGated?: boolean;
  readonly play: (scene: Scene) => Promise<void>;
}

/** Faults that must outlast the lease last so much of it. */
const LONGER = 1.3;

/** The first six are those of the page on stale locks that this project answers; the others happen as well. */
export const proofs: readonly Proof[] = [
  {
    name: 'kill',
    fault: 'SIGKILL in the guarded section',
    claim: 'once its lease is over nothing more of the dead owner is accepted',
    abortSince: null,
    async play(scene) {
      const old = await scene.begin();
      const killedMs = await scene.killOwner();
      await scene.takesOver(old, killedMs);
      await scene.ghostIsRefused(old);
    },
  },
  {
    name: 'pause',
    fault: 'SIGSTOP for longer than the lease, then SIGCONT',
    claim: 'the owner wakes up, extends nothing, and its writes are refused',
    abortSince: 'SIGCONT',
    async play(scene) {
      const old = await scene.begin();
      const fault = scene.strike('pause');
      scene.owner.stop();
      await scene.takesOver(old, fault.atMs);
      await scene.passes(fault.atMs, LONGER * scene.ttlMs);
      const resumedMs = sharedMs();
      fault.end(resumedMs - fault.atMs);
      scene.owner.cont();
      await scene.aborts(resumedMs, scene.stage.refreshMs, 'a refresh interval of waking up');
      await scene.isShutOut(old);
    },
  },
  {
    name: 'partition',
    fault: 'the owner is cut off from the store for longer than the lease, then the network heals',
    claim: 'it gives up by its own clock, and what was on its way extends nothing',
    abortSince: 'the cut',
    isGated: true,
    async play(scene) {
      const old = await scene.begin();
      const fault = scene.strike('partition');
      scene.gate.hold();
      await scene.aborts(fault.atMs, scene.ttlMs, 'the lease, with no word from the store');
      await scene.takesOver(old, fault.atMs);
      await scene.passes(fault.atMs, LONGER * scene.ttlMs);
      fault.end(scene.gate.release());
      // What was held arrives now, and another extension would be due.
      await scene.passes(sharedMs(), scene.stage.refreshMs);
      await scene.isShutOut(old);
    },
  },
  {
    name: 'clock',
    fault: "the owner's wall clock steps forward by two leases",
    claim: 'it takes the lease for gone and does no guarded work',
    abortSince: 'the step',
    async play(scene) {
      const old = await scene.begin();
      const fault = scene.strike('clock-step');
      const { outcome, effect } = await scene.owner.stepClock(2 * scene.ttlMs, scene.patienceMs);
      fault.end(effect);
      scene.refuses('the first write after the step is refused by its owner', outcome, 'LEASE_LOST');
      await scene.aborts(fault.atMs, scene.stage.refreshMs, 'a refresh interval');
      await scene.takesOver(old, fault.atMs);
      await scene.isShutOut(old);
    },
  },
  {
    name: 'release',
    fault: 'the lease is released by hand while its owner lives',
    claim: 'the owner hears of it and aborts within a refresh interval',
    abortSince: 'the release',
    async play(scene) {
      const old = await scene.begin();
      const fault = scene.strike('release-by-hand');
      fault.end((await scene.revoke(old)) ? 1 : 0);
      await scene.aborts(fault.atMs, scene.stage.refreshMs, 'a refresh interval');
      await scene.takesOver(old, fault.atMs);
      await scene.isShutOut(old);
    },
  },
  {
    name: 'takeover',
    fault: 'the owner is killed, and only then somebody else comes',
    claim: 'a new owner has the lease within one lease, and the fence records its token',
    abortSince: null,
    async play(scene) {
      const old = await scene.begin({ isSuccessorWaiting: false });
      const killedMs = await scene.killOwner();
      scene.successor.work();
      await scene.takesOver(old, killedMs);
      await scene.ghostIsRefused(old);
    },
  },
  {
    name: 'data-loss',
    fault: 'the record of the lease is deleted, as by FLUSHALL, eviction or a restart without persistence',
    claim: 'the owner stops within a refresh interval, and the next token is larger all the same',
    abortSince: 'the loss',
    async play(scene) {
      const old = await scene.begin();
      const fault = scene.strike('data-loss');
      fault.end(await scene.stage.cleaner.loseRecord(scene.resource));
      await scene.takesOver(old, fault.atMs);
      await scene.aborts(fault.atMs, scene.stage.refreshMs, 'a refresh interval');
      await scene.isShutOut(old);
    },
  },
  {
    name: 'blocked',
    fault: "the owner's event loop stands still for longer than the lease",
    claim: 'its first write afterwards is refused, without a question to the store',
    abortSince: 'the end of the block',
    async play(scene) {
      const old = await scene.begin();
      const fault = scene.strike('pause');
      const blocked = scene.owner.block(LONGER * scene.ttlMs, scene.patienceMs);
      const [{ atMs, outcome, effect }] = await Promise.all([blocked, scene.takesOver(old, fault.atMs)]);
      fault.end(effect);
      scene.refuses('the first write after the block is refused by its owner', outcome, 'LEASE_LOST');
      await scene.aborts(atMs, scene.stage.refreshMs, 'a refresh interval');
      await scene.isShutOut(old);
    },
  },
  {
    name: 'late-packet',
    fault: 'the owner dies while its extension is on its way; it arrives when another owns the lease',
    claim: 'what a dead process has sent revives nothing',
    abortSince: null,
    isGated: true,
    async play(scene) {
      const old = await scene.begin();
      const fault = scene.strike('partition');
      scene.gate.hold();
      await scene.gate.caught();
      const killedMs = await scene.killOwner();
      await scene.takesOver(old, killedMs);
      fault.end(scene.gate.release());
      await scene.passes(sharedMs(), scene.stage.refreshMs);
      await scene.ghostIsRefused(old);
    },
  },
];
