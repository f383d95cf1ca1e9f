import type { AcquireReply, AcquireRequest } from '../../src/store/store.ts';
import type { MemoryLeaseStore } from '../../src/store/memory.ts';
import type { StoreMutant } from './store-mutant.ts';

function changeAcquire(change: (request: AcquireRequest) => Partial<AcquireRequest>): StoreMutant['change'] {
  return (memory) => ({ acquire: (request, call) => memory.acquire({ ...request, ...change(request) }, call) });
}

function changeReply(
  change: (reply: AcquireReply, request: AcquireRequest) => AcquireReply,
): (memory: MemoryLeaseStore) => { acquire: MemoryLeaseStore['acquire'] } {
  return (memory) => ({ acquire: async (request, call) => change(await memory.acquire(request, call), request) });
}

const retrying = (retry: (given: number) => number): StoreMutant['change'] =>
  changeAcquire(({ tick }) => ({ tick: tick && { ...tick, retry: retry(tick.retry) } }));

const holding = (minHoldMs: number): StoreMutant['change'] =>
  changeAcquire(({ tick }) => ({ tick: tick?.at === null ? { ...tick, minHoldMs } : tick }));

/** Errors in attempts, in runs without a schedule and in what is forgotten. */
export const tickMutants: readonly StoreMutant[] = [
  {
    does: 'retries without end',
    foundBy: 'a tick is claimed again as often as the request says, and the claims are counted',
    change: retrying((given) => (given > 0 ? 100 : 0)),
  },
  {
    does: 'retries once too often',
    foundBy: 'a tick is claimed again as often as the request says, and the claims are counted',
    change: retrying((given) => given + 1),
  },
  {
    does: 'takes every claim for the first',
    foundBy: 'a tick is claimed again as often as the request says, and the claims are counted',
    change: changeReply((reply) =>
      reply.kind === 'granted' && reply.tick !== null ? { ...reply, tick: { ...reply.tick, attempt: 1 } } : reply,
    ),
  },
  {
    does: 'counts the attempts at a job, not at its tick',
    foundBy: 'the next tick is a first attempt',
    change: (memory) => {
      const claims = new Map<string, number>();
      return {
        async acquire(request, call) {
          const reply = await memory.acquire(request, call);
          if (reply.kind !== 'granted' || reply.tick === null || request.tick === undefined) return reply;
          const attempt = (claims.get(request.tick.job) ?? 0) + 1;
          claims.set(request.tick.job, attempt);
          return { ...reply, tick: { ...reply.tick, attempt } };
        },
      };
    },
  },
  {
    does: 'counts what was not started',
    foundBy: 'a claim that was given back is no attempt',
    change: (memory) => ({
      release: (request, call) =>
        memory.release({ ...request, outcome: request.outcome === 'not-started' ? 'aborted' : request.outcome }, call),
    }),
  },
  {
    does: 'does not say again what was claimed',
    foundBy: 'a grant that is repeated says what it has claimed',
    change: changeReply((reply) => (reply.kind === 'granted' && reply.again ? { ...reply, tick: null } : reply)),
  },
  {
    does: 'counts a replacement as an attempt',
    foundBy: 'replaces and adopt keep the attempt, and tell it',
    change: (memory) => ({
      async acquire(request, call) {
        const { replaces, resource, tick } = request;
        if (replaces === '' || tick === undefined) return memory.acquire(request, call);
        const end = { outcome: 'failed', floor: 0, history: 'exceptions', job: tick.job } as const;
        await memory.release({ resource, leaseId: replaces, ...end }, call);
        return memory.acquire({ ...request, replaces: '', tick: { ...tick, retry: 100 } }, call);
      },
    }),
  },
  {
    does: 'does not tell who adopts what was claimed',
    foundBy: 'replaces and adopt keep the attempt, and tell it',
    change: (memory) => ({
      async adopt(request, call) {
        const reply = await memory.adopt(request, call);
        return reply.kind === 'granted' ? { ...reply, tick: null } : reply;
      },
    }),
  },
  {
    does: 'gives every waiter an attempt',
    foundBy: 'a waiter for the same tick gets the next attempt when the holder dies, and one only',
    change: retrying((given) => 10 * given),
  },
  {
    does: 'sends waiters for the same tick away',
    foundBy: 'a waiter for the same tick gets the next attempt when the holder dies, and one only',
    change: changeAcquire(({ mode, tick }) => ({ tick: tick && { ...tick, retry: mode === 'wait' ? 0 : tick.retry } })),
  },
  {
    does: 'takes every run for a failure',
    foundBy: 'a waiter for the same tick gets the next attempt when the holder fails, and none when it is done',
    change: (memory) => ({ release: (request, call) => memory.release({ ...request, outcome: 'failed' }, call) }),
  },
  {
    does: 'takes every run for a success',
    foundBy: 'a waiter for the same tick gets the next attempt when the holder fails, and none when it is done',
    change: (memory) => ({ release: (request, call) => memory.release({ ...request, outcome: 'done' }, call) }),
  },
  {
    does: 'does not tell the job of the holder',
    foundBy: 'who is refused because somebody holds the resource is told the job of that lease',
    change: changeReply((reply) =>
      'holder' in reply && reply.holder !== null ? { ...reply, holder: { ...reply.holder, job: null } } : reply,
    ),
  },
  {
    does: 'tells the last job of the resource, not that of its holder',
    foundBy: 'who is refused because somebody holds the resource is told the job of that lease',
    change: (memory) => {
      let job: string | null = null;
      return changeReply((reply, { tick }) => {
        if (reply.kind === 'granted' && tick !== undefined) ({ job } = tick);
        return 'holder' in reply && reply.holder !== null ? { ...reply, holder: { ...reply.holder, job } } : reply;
      })(memory);
    },
  },
  {
    does: 'tells of clocks that are ahead only',
    foundBy: 'a refused tick tells how far it lies ahead of the store’s clock, or behind',
    change: changeReply((reply) => (reply.kind === 'tick' ? { ...reply, aheadMs: Math.max(0, reply.aheadMs) } : reply)),
  },
  {
    does: 'keeps no distance',
    foundBy: 'a run without a schedule begins at the store’s now, and the next one not before its time is up',
    change: holding(1),
  },
  {
    does: 'keeps its distance to what did not die or fail only',
    foundBy: 'a run without a schedule keeps its distance whatever became of the one before',
    change: retrying((given) => given + 1),
  },
  {
    does: 'counts the distance from the end of the run',
    foundBy: 'while the last run without a schedule goes on after its time, the answer is held',
    change: holding(1_000),
  },
  {
    does: 'keeps the beginning of the first attempt',
    foundBy: 'a further attempt keeps its distance to nobody, everybody to it',
    change: (memory) => {
      let first = 0;
      return changeReply((reply) => {
        if (reply.kind === 'granted' && reply.tick?.attempt === 1) first = reply.tick.at;
        if (reply.kind === 'granted' && reply.tick !== null) return { ...reply, tick: { ...reply.tick, at: first } };
        return reply;
      })(memory);
    },
  },
  {
    does: 'keeps its distance to what was not started',
    foundBy: 'a run without a schedule that was not started leaves no distance',
    change: (memory) => ({ release: (request, call) => memory.release({ ...request, outcome: 'done' }, call) }),
  },
  {
    does: 'waits for a clock that was set back',
    foundBy: 'a last run ahead of a clock that was set back keeps nobody out for longer than its time',
    change: (memory) => {
      let last = 0;
      return {
        async acquire(request, call) {
          const reply = await memory.acquire(request, call);
          const at = reply.kind === 'granted' && request.tick?.at === null ? (reply.tick?.at ?? 0) : last;
          if (at >= last) {
            last = at;
            return reply;
          }
          memory.flush(request.resource);
          return { kind: 'tick', reason: 'already-ran', aheadMs: last - at, remainingMs: last - at };
        },
      };
    },
  },
  {
    does: 'forgets nothing',
    foundBy: 'a resource that is released with a retention is forgotten when it is over, no other',
    change: (memory) => ({
      release: ({ retentionMs: _, ...request }, call) => memory.release(request, call),
    }),
  },
  {
    does: 'forgets everything',
    foundBy: 'a resource that is released with a retention is forgotten when it is over, no other',
    change: (memory) => ({ release: (request, call) => memory.release({ ...request, retentionMs: 300 }, call) }),
  },
  {
    does: 'forgets what is held',
    foundBy: 'a resource is not forgotten while it is held',
    change: (memory) => {
      let forgetUs = Infinity;
      return {
        async release(request, call) {
          const { nowUs = 0 } = (await memory.read(request.resource, call)) ?? {};
          if (request.retentionMs !== undefined) forgetUs = nowUs + request.retentionMs * 1000;
          return memory.release(request, call);
        },
        async read(resource, call) {
          const record = await memory.read(resource, call);
          return record !== null && record.nowUs >= forgetUs ? null : record;
        },
      };
    },
  },
  {
    does: 'goes on forgetting what is acquired again',
    foundBy: 'a resource is not forgotten while it is held',
    change: (memory) => ({ release: (request, call) => memory.release({ retentionMs: 150, ...request }, call) }),
  },
  {
    does: 'never forgets the tick of who died',
    foundBy: 'a tick with a retention is forgotten that long after its claim, and after its end',
    change: changeAcquire(() => ({ retentionMs: undefined })),
  },
  {
    does: 'forgets a tick that long after its claim, though it has ended since',
    foundBy: 'a tick with a retention is forgotten that long after its claim, and after its end',
    change: (memory) => ({
      release: ({ retentionMs: _, ...request }, call) => memory.release(request, call),
    }),
  },
  {
    does: 'forgets ticks that are to stay',
    foundBy: 'a tick that is claimed without a retention stays, whatever the one before had',
    change: changeAcquire(() => ({ retentionMs: 150 })),
  },
  {
    does: 'ends tombstones with the retention',
    foundBy: 'a retention ends no tombstone',
    change: (memory) => ({
      cancel: (request, call) => memory.cancel({ ...request, tombstoneMs: Math.min(request.tombstoneMs, 100) }, call),
    }),
  },
];
