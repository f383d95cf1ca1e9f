import { MemoryFence, type Fence } from '@leasehold/core';
import type { ReleaseStep } from '@leasehold/core/diagnosis';
import { postgresFence } from '@leasehold/core/postgres';
import { redisFence } from '@leasehold/core/redis';
import { expect, inject, test } from 'vitest';

import { connectPool, createSite, proxyTo } from '../postgres/support.ts';
import { TcpProxy } from '../support/proxy.ts';
import { connectRedis } from '../support/redis-client.ts';
import { incident } from './release-support.ts';

test('a fence that is cut off as it is sealed: nothing is released, whether the seal or its reply was lost; healed, it is done', async () => {
  await using here = await incident();
  await using redisProxy = await TcpProxy.start({ port: Number(new URL(inject('redisUrl')).port) });
  await using client = await connectRedis(redisProxy.redisUrl);
  await using site = await createSite(inject('postgresUrl'));
  const { proxy, url } = await proxyTo(site.url);
  await using postgresProxy = proxy;
  await using pool = connectPool(url);
  const memory = new MemoryFence();
  const redis = redisFence(client, { name: 'redis', timeout: '300ms' });
  const postgres = postgresFence(pool, { name: 'postgres', timeout: '300ms' });

  const asked = await here.hold('seal');
  const told = await here.hold('reply');
  await here.owner.kill9();

  const cutAt = (resource: string, leaseId: string, fence: Fence, cut: () => void): Promise<unknown> =>
    here
      .force(resource, leaseId, {
        fences: [memory, fence, here.ledger],
        onStep: (step: ReleaseStep) => {
          if (step === 'sealing') cut();
        },
      })
      .catch((error: unknown) => error);
  const [seal, reply] = await Promise.all([
    cutAt('seal', asked.leaseId, redis, () => redisProxy.hold('up')),
    cutAt('reply', told.leaseId, postgres, () => postgresProxy.hold('down')),
  ]);
  for (const [error, fence] of [
    [seal, 'redis'],
    [reply, 'postgres'],
  ] as const) {
    expect(error).toMatchObject({
      code: 'UNSAFE_RELEASE',
      missing: [expect.stringContaining(`fence ${fence} could not be sealed, or did not say so`)],
      sealed: ['memory'],
    });
  }
  for (const [resource, { leaseId }] of [
    ['seal', asked],
    ['reply', told],
  ] as const) {
    expect(await here.operator.inspect(resource)).toMatchObject({ leaseId, state: 'expired', previous: null });
    expect(here.told.find((event) => event.resource === resource)).toMatchObject({
      outcome: 'refused',
      sealed: ['memory'],
    });
  }

  // Either may be sealed: who had it done is to be found.
  for (const [resource, fence] of [
    ['seal', 'redis'],
    ['reply', 'postgres'],
  ] as const) {
    const [noted] = await here.operator.history(resource);
    expect(noted).toMatchObject({ event: 'sealed' });
    expect(noted?.detail).toContain(`: drill (memory, perhaps ${fence}; not released; `);
    expect(here.told.find((event) => event.resource === resource)?.evidence).toContain(`perhaps sealed: ${fence}`);
  }

  redisProxy.pass();
  postgresProxy.pass();
  const again = await Promise.all([
    here.force('seal', asked.leaseId, { fences: [memory, redis, here.ledger] }),
    here.force('reply', told.leaseId, { fences: [memory, postgres, here.ledger] }),
  ]);
  expect(again.map(({ outcome, sealed }) => [outcome, ...sealed])).toEqual([
    ['released', 'memory', 'redis', 'ledger'],
    ['released', 'memory', 'postgres', 'ledger'],
  ]);
  for (const [resource, fences] of [
    ['seal', [memory, redis]],
    ['reply', [memory, postgres]],
  ] as const) {
    await using next = await here.operator.acquire(resource, { fences });
    expect(next.isHeld()).toBe(true);
  }
});
