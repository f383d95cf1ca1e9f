import { expect, test, vi } from 'vitest';

import { startChild, type Child } from '../support/child.ts';
import { startRedis } from '../support/redis-server.ts';

// For a busy machine.
vi.setConfig({ testTimeout: 60_000 });

const bin = new URL('../../packages/cli/src/bin.ts', import.meta.url);
// Its handlers import the package by name, as users do.
const fromSource = true;
const example = (file: string): string => new URL(`../../examples/config/${file}`, import.meta.url).pathname;

interface Line {
  readonly msg: string;
  readonly [field: string]: unknown;
}

/** What it has logged. */
function lines({ output }: Child): Line[] {
  const whole = output.split('\n').filter((line) => line.startsWith('{') && line.endsWith('}'));
  return whole.map((line) => JSON.parse(line) as Line);
}

test('leasehold run: the example runs as a newcomer starts it, and ends in order with 0', async () => {
  // Of its own: its file names the queue and the prefix.
  await using redis = await startRedis();
  const env = { LEASEHOLD_REDIS_URL: redis.url, LISTEN: '127.0.0.1:0' };
  await using child = startChild(bin, { args: ['run', example('leasehold.yaml')], env, fromSource });
  const said = (msg: string): Line[] => lines(child).filter((line) => line.msg === msg);
  await vi.waitFor(() => expect(said('ready')).toHaveLength(1), 20_000);
  await using producer = startChild(example('add-payments.js'), { env });
  expect(await producer.exit).toEqual({ code: 0, signal: null });
  await vi.waitFor(() => {
    expect(
      said('charged')
        .map(({ customerId, amount, resource }) => [customerId, amount, resource])
        .toSorted(),
    ).toEqual([
      [1, 10, 'customer:1'],
      [1, 30, 'customer:1'],
      [2, 20, 'customer:2'],
    ]);
    expect(said('tick').length).toBeGreaterThanOrEqual(2);
  }, 20_000);
  const ticks = said('tick').map(({ tick }) => tick);
  expect(ticks).toEqual([...new Set(ticks)]);

  child.kill('SIGINT');
  expect(await child.exit).toEqual({ code: 0, signal: null });
  expect(lines(child).at(-1)).toMatchObject({ msg: 'closed', unsettled: 0 });
});
