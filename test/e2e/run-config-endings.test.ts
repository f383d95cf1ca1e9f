import { LeaseManager } from '@leasehold/core';
import { redisStore } from '@leasehold/core/redis';
import { Queue } from 'bullmq';
import { expect, inject, test, vi } from 'vitest';

import { startChild, type Child } from '../support/child.ts';
import { configFile } from '../support/programs.ts';
import { uniqueName } from '../support/redis-client.ts';

const BIN = new URL('../../packages/cli/src/bin.ts', import.meta.url);
const FILE = configFile(new URL('./fixtures/run-config/endings.yaml', import.meta.url));

interface Line {
  readonly level: number;
  readonly msg: string;
  readonly [field: string]: unknown;
}

// For a busy machine.
vi.setConfig({ testTimeout: 90_000 });

function linesOf({ output }: Child, msg?: string): Line[] {
  const whole = output.split('\n').filter((line) => line.startsWith('{') && line.endsWith('}'));
  return whole.map((line) => JSON.parse(line) as Line).filter((line) => msg === undefined || line.msg === msg);
}

/** One process of the file; with the jobs of its queues and the leases that are looked at from outside. */
class Place implements AsyncDisposable {
  readonly #name = uniqueName('endings');
  readonly #queues: Queue[] = [];
  readonly env = { REDIS_URL: inject('redisUrl'), PREFIX: this.#name, QUEUE: this.#name };
  readonly leases = new LeaseManager({ store: redisStore(inject('redisUrl'), { prefix: this.#name }) });
  readonly child = startChild(BIN, { args: ['run', FILE, '--only', 'act,stays'], env: this.env });

  async add(queue: 'act' | 'stays', data: object): Promise<void> {
    const { hostname, port } = new URL(inject('redisUrl'));
    const name = queue === 'act' ? this.#name : `${this.#name}-stays`;
    const opened = new Queue(name, { connection: { host: hostname, port: Number(port) } });
    this.#queues.push(opened);
    await opened.add(queue, data);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.child.kill9();
    await this.leases.close();
    for (const queue of this.#queues) {
      await queue.obliterate({ force: true });
      await queue.close();
    }
  }
}

test.each([
  {
    how: 'throws',
    origin: 'uncaughtException',
    message: 'thrown where nobody catches',
    says: 'an exception was thrown where nobody catches it, outside of what a handler awaits; runs are aborted, and the process ends',
  },
  {
    how: 'rejects',
    origin: 'unhandledRejection',
    message: 'rejected where nobody waits',
    says: 'a promise that nobody waits for was rejected; runs are aborted, and the process ends',
  },
])(
  'an error that nobody catches ($how) is told as fatal, ends the process with 1, and the leases of runs that end are given back',
  async ({ how, origin, message, says }) => {
    await using place = new Place();
    const { child, leases } = place;
    await place.add('stays', {});
    await vi.waitFor(() => expect(linesOf(child, 'run begins')).toHaveLength(1), 30_000);
    expect(await leases.inspect('stays')).toMatchObject({ state: 'held' });
    await place.add('act', { how });
    expect(await child.exit).toEqual({ code: 1, signal: null });
    const fatal = linesOf(child).filter(({ level }) => level === 60);
    expect(fatal).toMatchObject([{ msg: says, origin, err: { message } }]);
    expect(linesOf(child, 'leases are given up')).toMatchObject([{ left: 0 }]);
    // Long before its 30 s are over.
    expect(await leases.inspect('stays')).not.toMatchObject({ state: 'held' });
    expect(await leases.inspect(`act:${how}`)).not.toMatchObject({ state: 'held' });
  },
);

test('with exitOnAbandon a handler that ignores its signal ends the process with 1, after the other runs were ended in order', async () => {
  await using place = new Place();
  const { child, leases } = place;
  await place.add('stays', {});
  await vi.waitFor(() => expect(linesOf(child, 'run begins')).toHaveLength(1), 30_000);
  await place.add('act', { how: 'ignores' });
  expect(await child.exit).toEqual({ code: 1, signal: null });
  expect(linesOf(child, 'handler ignores its signal and is left behind')).toMatchObject([
    { level: 50, job: 'act', patienceMs: 100 },
  ]);
  expect(linesOf(child, 'run gave up, as it was told to end')).toMatchObject([{ job: 'stays' }]);
  expect(linesOf(child, 'closed')).toMatchObject([{ unsettled: 1 }]);
  expect(await leases.inspect('stays')).not.toMatchObject({ state: 'held' });
});

test('run --once tells of an error that nobody catches, and gives its lease back; and of a handler that ends the process, with a code that is not 0', async () => {
  const prefix = uniqueName('endings');
  const env = { REDIS_URL: inject('redisUrl'), PREFIX: prefix, QUEUE: 'none' };
  const start = (ENDS: string): Child =>
    startChild(BIN, { args: ['run', FILE, '--once', 'early'], env: { ...env, ENDS } });
  await using throwing = start('throws');
  expect(await throwing.exit).toEqual({ code: 1, signal: null });
  expect(linesOf(throwing).filter(({ level }) => level === 60)).toMatchObject([{ origin: 'uncaughtException' }]);
  await using leases = new LeaseManager({ store: redisStore(inject('redisUrl'), { prefix }) });
  expect(await leases.inspect('early')).toMatchObject({ state: 'free' });
  await using exiting = start('exits');
  expect(await exiting.exit).toEqual({ code: 1, signal: null });
  const msg = 'process.exit was called, by a handler or what it uses; leases run out by themselves';
  expect(linesOf(exiting).filter(({ level }) => level === 60)).toMatchObject([{ msg, code: 0 }]);
});

test('run --once calls no handler after a signal that came before it, and ends with the code of the signal', async () => {
  const env = { REDIS_URL: inject('redisUrl'), PREFIX: uniqueName('endings'), QUEUE: 'none' };
  const start = (its: Readonly<Record<string, string>>): Child =>
    startChild(BIN, { args: ['run', FILE, '--once', 'early'], env: { ...env, ...its } });
  await using child = start({ SIGNAL: 'SIGTERM' });
  expect(await child.exit).toEqual({ code: 143, signal: null });
  expect(linesOf(child, 'called')).toEqual([]);
  await using other = start({});
  expect(await other.exit).toEqual({ code: 0, signal: null });
  expect(linesOf(other, 'called')).toHaveLength(1);
});
