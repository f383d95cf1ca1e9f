import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';

import { startChild, type Child } from '../support/child.ts';
import { connectRedis } from '../support/redis-client.ts';
import { startRedis, type RedisServer } from '../support/redis-server.ts';
import { isAlive } from '../support/signals.ts';

const LIMIT_MS = 100_000;

let redis: RedisServer;
beforeAll(async () => {
  redis = await startRedis({ scope: 'file' });
});
afterAll(() => redis.stop());

function startDemo(...args: readonly string[]): Child {
  const demo = startChild(new URL('../../examples/demo/main.ts', import.meta.url), {
    args,
    // As `npm run demo` does it; its processes start others by the name of their sources.
    fromSource: true,
    env: { LEASEHOLD_REDIS_URL: redis.url, NO_COLOR: '1' },
  });
  // Asked to end, it ends its processes as well. If it were killed, one that is stopped would stay.
  const timer = setTimeout(() => demo.kill('SIGTERM'), LIMIT_MS);
  void demo.exit.then(() => clearTimeout(timer));
  return demo;
}

/** The closing table. */
function tableOf({ output }: Child): Record<string, string> {
  const rows = output.matchAll(/^ {2}([a-z][a-z -]+?) {2,}(.+)$/gm);
  return Object.fromEntries([...rows].map(([, what, value]) => [what, value]));
}

async function keysLeft(): Promise<string[]> {
  await using client = await connectRedis(redis.url);
  const keys = await client.keys('*');
  return keys;
}

describe('the demo', { timeout: LIMIT_MS + 15_000 }, () => {
  test('refuses the stale write, and the ledger is exact', async () => {
    await using demo = startDemo();
    const exit = await demo.exit;
    expect(demo.output).toMatch(/SIGKILL$/m);
    expect(demo.output).toMatch(/SIGSTOP$/m);
    expect(demo.output).toMatch(/its check said held.*\n(.*\n)*.*REFUSED by the fence/);
    expect(tableOf(demo)).toMatchObject({
      'jobs done': '11 of 11',
      'cron ticks doubled': '0',
      'owners killed in mid-job': expect.stringMatching(/^1 /) as string,
      'owners stopped past their lease': expect.stringMatching(/^1 /) as string,
      'stale writes refused': '1',
      'stale writes let in': '0',
      'lost updates': '0',
      'doubled updates': '0',
      'sum of all balances': '1050, should be 1050',
    });
    expect(exit).toEqual({ code: 0, signal: null });
    expect(await keysLeft()).toEqual([]);
  });

  test('loses an update without the fence', async () => {
    await using demo = startDemo('--unfenced');
    const exit = await demo.exit;
    expect(demo.output).toMatch(/its check said held.*\n(.*\n)*.* OVER \d+: job-1[01] is undone/);
    expect(tableOf(demo)).toMatchObject({
      'jobs done': '11 of 11',
      'cron ticks doubled': '0',
      'stale writes refused': '0',
      'stale writes let in': '1',
      'lost updates': expect.stringMatching(/^1 \(job-1[01]\)$/) as string,
      'doubled updates': '0',
      'sum of all balances': expect.stringMatching(/^(850|950), should be 1050$/) as string,
    });
    expect(demo.output).toContain('As promised, an update was lost.');
    expect(exit).toEqual({ code: 0, signal: null });
    expect(await keysLeft()).toEqual([]);
  });

  test('ends its processes when it is interrupted, the stopped one too', async () => {
    await using demo = startDemo();
    await vi.waitFor(() => expect(demo.output).toMatch(/SIGSTOP$/m), { timeout: LIMIT_MS, interval: 20 });
    demo.kill('SIGINT');
    expect(await demo.exit).toEqual({ code: 130, signal: null });
    const pids = [...demo.output.matchAll(/\(pid (\d+)\)/g)].map(([, pid]) => Number(pid));
    expect(pids).toHaveLength(3);
    await expect.poll(() => pids.filter(isAlive), { timeout: 5000 }).toEqual([]);
  });

  test('explains itself', async () => {
    await using demo = startDemo('--help');
    expect(await demo.exit).toEqual({ code: 0, signal: null });
    expect(demo.output).toContain('npm run demo [-- --unfenced]');
  });

  test('refuses an option that it does not know', async () => {
    await using demo = startDemo('--fenced');
    expect(await demo.exit).toEqual({ code: 2, signal: null });
    expect(demo.output).toContain('Usage:');
  });
});
