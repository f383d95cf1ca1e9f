import { setTimeout as sleep } from 'node:timers/promises';

import type { TcpProxy } from '../../support/proxy.ts';
import type { Nemesis } from '../nemesis.ts';
import { seatWith } from './claims.ts';
import { untilMet } from './met.ts';
import { leaseCall } from './requests.ts';

/** Calls of an owner to the store are carried out twice, the second time at once or much later. */
export const duplicate: Nemesis = {
  name: 'duplicate',
  kinds: ['duplication'],
  async strike(stage) {
    const found = await seatWith(stage, ({ redisProxy }) => redisProxy);
    if (found === null) return null;
    const { seat, part: proxy, claimed } = found;
    const over = new AbortController();
    const match = leaseCall(stage);
    let doubled = 0;
    const onceMore = async (way: TcpProxy, bytes: Buffer): Promise<void> => {
      try {
        await sleep(stage.random() < 0.5 ? 0 : stage.ttlMs * stage.random(), undefined, { signal: over.signal });
        await way.replay(bytes);
        doubled++;
      } catch {
        // over, or the store cannot be reached
      }
    };
    const watch = async (): Promise<void> => {
      while (!over.signal.aborted) void onceMore(proxy, await proxy.nextRequest(match, over.signal));
    };
    void watch();
    return {
      targets: [seat.life],
      forMs: stage.ttlMs * (1.5 + stage.random()),
      async heal() {
        await untilMet(() => doubled);
        over.abort();
        claimed[Symbol.dispose]();
        return doubled;
      },
    };
  },
};
