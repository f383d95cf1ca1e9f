import type { TcpProxy } from '../../support/proxy.ts';
import type { Nemesis, Strike } from '../nemesis.ts';
import type { Seat, Stage } from '../stage.ts';
import { claim } from './claims.ts';
import { untilMet } from './met.ts';
import { acquireCall, COMMIT } from './requests.ts';

/** The replies to acquisitions are lost one after the other: who has the lease then does not know it. */
export const acquireReplyLost: Nemesis = {
  name: 'acquire-reply-lost',
  strike: async (stage) => losing(stage, ({ redisProxy }) => redisProxy, acquireCall(stage)),
};

/** The answers to COMMIT are lost one after the other. */
export const commitReplyLost: Nemesis = {
  name: 'commit-reply-lost',
  strike: async (stage) => losing(stage, ({ fenceProxy }) => fenceProxy, COMMIT),
};

/** Of all seats: nobody can say who asks next. */
function losing(stage: Stage, pick: (seat: Seat) => TcpProxy, match: RegExp): Strike | null {
  const ways = stage.seats.flatMap((seat) => {
    const claimed = claim(pick(seat));
    return claimed === null ? [] : [{ proxy: pick(seat), claimed }];
  });
  if (ways.length === 0) return null;
  const over = new AbortController();
  let lost = 0;
  const lose = async (proxy: TcpProxy): Promise<void> => {
    while (!over.signal.aborted) {
      await proxy.loseNextReply(match, over.signal);
      lost++;
    }
  };
  for (const { proxy } of ways) void lose(proxy);
  return {
    forMs: stage.ttlMs * (0.5 + stage.random()),
    async heal() {
      await untilMet(() => lost);
      over.abort();
      for (const { claimed } of ways) claimed[Symbol.dispose]();
      return lost;
    },
  };
}
