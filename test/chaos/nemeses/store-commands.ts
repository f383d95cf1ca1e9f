import { connectRedis } from '../../support/redis-client.ts';
import type { Nemesis } from '../nemesis.ts';
import { insist, tried } from './admin.ts';
import { claim } from './claims.ts';

/** The store forgets the scripts that it was told once. */
export const storeScriptFlush: Nemesis = {
  name: 'store-script-flush',
  async strike({ redisAdmin }) {
    const forgotten = await tried(async () => {
      const [before, , after] = (await redisAdmin.multi().info('memory').script('FLUSH').info('memory').exec()) ?? [];
      return scriptsIn(before?.[1]) - scriptsIn(after?.[1]);
    });
    return forgotten === undefined || forgotten === 0 ? null : { forMs: 0, heal: async () => forgotten };
  },
};

function scriptsIn(info: unknown): number {
  return Number(/^number_of_cached_scripts:(\d+)/m.exec(String(info))?.[1] ?? 0);
}

/** The store ends all connections. */
export const storeClientKill: Nemesis = {
  name: 'store-client-kill',
  async strike({ redisAdmin }) {
    const ended = await tried(async () => {
      const usual = await redisAdmin.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes');
      const listening = await redisAdmin.call('CLIENT', 'KILL', 'TYPE', 'pubsub', 'SKIPME', 'yes');
      return Number(usual) + Number(listening);
    });
    return ended === undefined || ended === 0 ? null : { forMs: 0, heal: async () => ended };
  },
};

/** CLIENT PAUSE for longer than a lease, of all calls or of those that write. */
export const storeClientPause: Nemesis = {
  name: 'store-client-pause',
  async strike(stage) {
    const forMs = Math.round(stage.ttlMs * (1.2 + stage.random()));
    const mode = stage.random() < 0.5 ? 'ALL' : 'WRITE';
    return answering(stage.redis.url, forMs, async (client) => {
      await client.call('CLIENT', 'PAUSE', forMs, mode);
      // A script may write.
      return client.eval('return 1', 0);
    });
  },
};

/** DEBUG SLEEP for longer than a lease. */
export const storeSleep: Nemesis = {
  name: 'store-sleep',
  async strike(stage) {
    const forMs = stage.ttlMs * (1.2 + stage.random());
    return answering(stage.redis.url, forMs, (client) => client.debug('SLEEP', forMs / 1000));
  },
};

/** A script that does not end: the store is silent at first, and then says BUSY to all, until somebody ends it. */
export const storeBusy: Nemesis = {
  name: 'store-busy',
  async strike(stage) {
    const claimed = claim(stage.redis);
    const clients =
      claimed === null
        ? undefined
        : await tried(() => Promise.all([connect(stage.redis.url), connectRedis(stage.redis.url)]));
    if (claimed === null || clients === undefined) {
      claimed?.[Symbol.dispose]();
      return null;
    }
    const [busy, other] = clients;
    const isSet = await tried(() => other.config('SET', 'lua-time-limit', '200'));
    const from = performance.now();
    const ended = busy.eval('while true do end', 0).then(
      () => 0,
      (error: unknown) => (/killed/i.test(String(error)) ? performance.now() - from : 0),
    );
    return {
      forMs: stage.ttlMs * (1 + stage.random()),
      async heal() {
        const isOver = (): Promise<unknown> =>
          other.script('KILL').catch((error: unknown) => {
            if (!/NOTBUSY/.test(String(error))) throw error;
          });
        if (isSet !== undefined) await insist(isOver);
        const effect = await ended;
        for (const client of clients) client.disconnect();
        claimed[Symbol.dispose]();
        return effect;
      },
    };
  },
};

type Client = Awaited<ReturnType<typeof connectRedis>>;

/** One that waits for its answers as long as it takes, and sends nothing twice. */
function connect(url: string): Promise<Client> {
  return connectRedis(url, { autoResendUnfulfilledCommands: false, retryStrategy: () => null });
}

/** How long the server took to answer is the effect: nobody else was answered meanwhile. */
async function answering(
  url: string,
  forMs: number,
  ask: (client: Client) => Promise<unknown>,
): Promise<{ readonly forMs: number; heal(): Promise<number> } | null> {
  const client = await tried(() => connect(url));
  if (client === undefined) return null;
  const from = performance.now();
  const took = ask(client).then(
    () => performance.now() - from,
    () => undefined,
  );
  return {
    forMs,
    async heal() {
      const ms = await took;
      client.disconnect();
      // Cut off, it cannot tell: whoever did that had an effect of his own.
      return ms === undefined ? 1 : ms < forMs / 2 ? 0 : ms;
    },
  };
}
