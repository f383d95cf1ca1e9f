// What is told of a release whose reply, or whose place in the log, was lost.
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { LeaseManager } from '@leasehold/core';
import { forceRelease, seal, type ReleaseStep } from '@leasehold/core/diagnosis';
import { redisStore } from '@leasehold/core/redis';
import { expect, inject, test } from 'vitest';

import { main } from '../../packages/cli/src/program.ts';
import { guardedFolder, removeFolder } from '../../scripts/services/guard.mjs';
import { TcpProxy } from '../support/proxy.ts';
import { connectRedis } from '../support/redis-client.ts';
import { errorOf, incident } from './release-support.ts';

const url = inject('redisUrl');

test('a release that was done and not answered is not told as one that was not, by the log, the error and the command', async () => {
  await using here = await incident();
  const { namespace: prefix } = here.operator;
  const lost = await here.hold('lost');
  const typed = await here.hold('typed');
  const unlogged = await here.hold('unlogged');
  const unseen = await here.hold('unseen');
  await here.owner.kill9();
  await using raw = await connectRedis(url);
  // Somebody else's key where the log is.
  await raw.set(`${prefix}:{unlogged}:log`, 'x');

  await Promise.all([
    (async () => {
      await using proxy = await TcpProxy.start({ port: Number(new URL(url).port) });
      await using manager = new LeaseManager({ store: redisStore(proxy.redisUrl, { prefix }), ttl: '1s' });
      const onStep = (step: ReleaseStep): void => {
        if (step === 'releasing') proxy.hold('down');
      };
      const options = { leaseId: lost.leaseId, reason: 'drill', fences: [here.ledger], onStep };
      const error = await errorOf(forceRelease(manager, 'lost', options));
      expect(error).toMatchObject({ code: 'STORE_UNAVAILABLE', mayHaveRun: true });
      proxy.pass();
    })(),
    (async () => {
      await using proxy = await TcpProxy.start({ port: Number(new URL(url).port) });
      const dir = guardedFolder('lost-release');
      await using _dir = { [Symbol.asyncDispose]: async () => removeFolder(dir) };
      const file = join(dir, 'leasehold.yaml');
      writeFileSync(
        file,
        `version: 1\nstore: { redis: '${proxy.redisUrl}', prefix: ${prefix}, callTimeout: 300ms }\nfences: { ledger: { redis: '${url}' } }\njobs: { none: { every: 1h, handler: ./none.js } }\n`,
      );
      let stderr = '';
      const write = (text: string): void => {
        stderr += text;
        if (text.includes('releasing')) proxy.hold('down');
      };
      const args = ['force-release', 'typed', '-c', file, '--lease-id', typed.leaseId, '--reason', 'drill', '--yes'];
      const code = await main(args, {
        env: {},
        stdin: Readable.from([]),
        stdout: { write: () => {} },
        stderr: { write },
      });
      expect(code).toBe(4);
      expect(stderr).toContain('It may have been released: the reply was lost.');
      expect(stderr).toContain('Sealed, and it stays so: ledger.');
      proxy.pass();
    })(),
    (async () => {
      expect(await here.force('unlogged', unlogged.leaseId)).toMatchObject({ outcome: 'released', isLogged: false });
    })(),
    (async () => {
      await using proxy = await TcpProxy.start({ port: Number(new URL(url).port) });
      await using manager = new LeaseManager({ store: redisStore(proxy.redisUrl, { prefix }), ttl: '1s' });
      const onStep = (step: ReleaseStep): void => {
        if (step === 'waiting for the next owner') proxy.hold('down');
      };
      const options = { leaseId: unseen.leaseId, reason: 'drill', fences: [here.ledger], onStep, watchSuccessor: 300 };
      const { isLogged, aftermath } = await forceRelease(manager, 'unseen', options);
      expect({ isLogged, aftermath }).toMatchObject({
        isLogged: true,
        aftermath: { successor: null, storeAnswered: false },
      });
      proxy.pass();
    })(),
  ]);
  for (const resource of ['lost', 'typed']) {
    const events = await here.operator.history(resource);
    expect(events.find(({ event }) => event === 'forced')?.detail, resource).toContain('drill (orphaned');
    const noted = events.find(({ event }) => event === 'sealed');
    expect(noted?.detail ?? 'perhaps released', resource).toContain('perhaps released');
    expect(noted?.detail ?? '', resource).not.toContain('not released');
  }
});

test('a seal that the fence refuses for certain is not kept as one', async () => {
  await using here = await incident();
  const token = Number.MAX_SAFE_INTEGER;
  const options = { fences: [here.ledger], reason: 'drill', fencingToken: token };
  expect(await seal(here.operator, 'far', options)).toMatchObject({
    sealed: [],
    failure: { fence: 'ledger', mayBeSealed: false, error: { code: 'TOKEN_OUT_OF_RANGE' } },
    isLogged: false,
  });
  expect(await here.operator.history('far')).toEqual([]);
});
