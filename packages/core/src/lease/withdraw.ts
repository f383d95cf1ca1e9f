import type { Context } from './context.ts';
import { patienceMs } from './settler.ts';
import type { Timing } from './term.ts';
import { timed } from './timed.ts';

// A tombstone outlives any packet of its leaseId that may still be under way.
const MIN_TOMBSTONE_MS = 60_000;

/**
 * Takes a leaseId back that comes to nothing, in the background, until the store has confirmed it: with a tombstone if a
 * call of it is unanswered (`dirty`), because its packet may still arrive.
 */
export function withdraw(
  { store, engine, settings, announcer }: Context,
  what: {
    readonly resource: string;
    readonly leaseId: string;
    readonly job: string | undefined;
    readonly dirty: boolean;
    readonly retentionMs: number | undefined;
  },
  timing: Timing,
): void {
  const { resource, leaseId, job, dirty, retentionMs } = what;
  const tombstoneMs = dirty ? Math.max(MIN_TOMBSTONE_MS, timing.ttlMs) : 0;
  const { history } = settings;
  const end = { outcome: 'not-started', floor: 0, job, tombstoneMs, history, retentionMs } as const;
  const request = { resource, leaseId, ...end };
  void engine.settler.add(
    (isRepeat) => {
      const timeoutMs = patienceMs(timing.callTimeoutMs, isRepeat);
      return timed(announcer, 'cancel', () => store.cancel(request, { timeoutMs }));
    },
    Math.max(tombstoneMs, timing.ttlMs),
  );
}
