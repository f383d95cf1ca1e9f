import { LeaseManager } from '@leasehold/core';
import { redisStore } from '@leasehold/core/redis';
import { describe, expect, inject, test, vi } from 'vitest';

import type { Child } from '../support/child.ts';
import { TcpProxy } from '../support/proxy.ts';
import { Fleet, linesOf, trueNow, type Line } from './fixtures/cli-fleet/fleet.ts';
import { inSeconds, until } from './fixtures/cron-proof-fleet.ts';

const url = inject('redisUrl');
/** Soon, if the processes are ready by then, or later; far apart, so that none comes while another process starts. */
const OFFSETS_S = [6, 26, 46];

// For a busy machine.
vi.setConfig({ testTimeout: 90_000 });

function proxied(): Promise<TcpProxy> {
  const { hostname: host, port } = new URL(url);
  return TcpProxy.start({ host, port: Number(port) }, 'file');
}

function managerOf({ prefix }: Fleet): LeaseManager {
  return new LeaseManager({ store: redisStore(url, { prefix }) });
}

function skipped(tick: number, reason: string): (line: Line) => boolean {
  return (line) => line['reason'] === reason && Date.parse(String(line['tick'])) === tick;
}

/**
 * The process claims the next tick in the store, and is told to end before it hears the answer. Resolves with the tick, when it has ended and
 * has begun nothing.
 */
async function endsAsItClaims(
  fleet: Fleet,
  claimant: Child,
  itsRedis: TcpProxy,
  tick: number,
  meanwhile: () => Promise<unknown> = async () => {},
): Promise<void> {
  await itsRedis.nextRequest(String(tick));
  itsRedis.hold('down');
  await meanwhile();
  claimant.kill('SIGTERM');
  await fleet.line(claimant, ({ msg }) => msg.startsWith('closing: no more work is taken'));
  itsRedis.pass();
  expect(await claimant.exit).toEqual({ code: 0, signal: null });
  expect(linesOf(claimant).filter(skipped(tick, 'stopped'))).toHaveLength(1);
  expect(fleet.told().filter((its) => its.pid === claimant.pid && its.tick === tick)).toEqual([]);
}

/** The next one, not at once. */
function nextOf(ticks: readonly number[]): number {
  const tick = ticks.find((its) => its > trueNow() + 1000);
  if (tick === undefined) throw new Error('the processes were not ready in time');
  return tick;
}

describe.concurrent('a tick that was claimed when its process was told to end is given back', () => {
  test('and with retry runs in another process that was refused it, as its first attempt', async () => {
    await using fleet = new Fleet(url, 'given-back.yaml');
    await using manager = managerOf(fleet);
    const { expression, ticks } = inSeconds(...OFFSETS_S);
    await using near = await proxied();
    await using far = await proxied();
    const [claimant, other] = await Promise.all([
      fleet.start({ SCHEDULE: expression, RETRY: '1', REDIS_URL: near.redisUrl }),
      fleet.start({ SCHEDULE: expression, RETRY: '1', REDIS_URL: far.redisUrl }),
    ]);
    const tick = nextOf(ticks);
    // It asks second.
    await until(tick - 300);
    far.hold('up');
    await endsAsItClaims(fleet, claimant, near, tick, async () => {
      await vi.waitUntil(async () => (await manager.inspect('tick'))?.state === 'held', { timeout: 5000, interval: 5 });
      far.pass();
      await fleet.line(other, skipped(tick, 'held'));
    });
    await fleet.tells((its) => its.what === 'ends' && its.tick === tick);
    const its = { pid: other.pid, attempt: 1, trigger: 'retry' };
    expect(fleet.told().filter((told) => told.tick === tick)).toMatchObject([
      { what: 'begins', ...its },
      { what: 'ends', ...its },
    ]);
  });

  test('and with catchUp runs in the process that is started next', async () => {
    await using fleet = new Fleet(url, 'given-back.yaml');
    await using manager = managerOf(fleet);
    const { expression, ticks } = inSeconds(...OFFSETS_S);
    // The last one of the minute before.
    const at = (ticks.at(-1) ?? 0) - 60_000;
    await manager.run('tick', { tick: { job: 'tick', at } }, () => {});
    await using near = await proxied();
    const env = { SCHEDULE: expression, CATCH_UP: 'latest' };
    const claimant = await fleet.start({ ...env, REDIS_URL: near.redisUrl });
    const tick = nextOf(ticks);
    await endsAsItClaims(fleet, claimant, near, tick);
    const next = await fleet.start(env);
    await fleet.tells((its) => its.what === 'ends' && its.tick === tick);
    const its = { pid: next.pid, attempt: 1, trigger: 'catch-up' };
    expect(fleet.told().filter((told) => told.tick === tick)).toMatchObject([
      { what: 'begins', ...its },
      { what: 'ends', ...its },
    ]);
  });
});
