import { isDeepStrictEqual } from 'node:util';
import { redisStore } from '@leasehold/core/redis';
import { expect, onTestFinished } from 'vitest';

import { keysOfResource, recordKey } from '../../packages/core/src/redis/keys.ts';
import { FakeTime } from '../support/faketime.ts';
import { testNeeding } from '../support/needing.ts';
import { connectRedis, uniqueName } from '../support/redis-client.ts';
import { startRedis } from '../support/redis-server.ts';
import { Course, Random, type Message, type Step } from './course.ts';
import { acquireOf, call } from './requests.ts';

/** One of the parked is told, whichever: who has parked first is not known any more after the clock has been set back. */
const anyone = (messages: readonly Message[]): readonly Message[] =>
  messages.map((message) => (message.kind === 'free' ? { ...message, channel: 'any' } : message));

const COURSES = 100;
const STEPS = 40;
/** The last steps are after the clock has been set back. */
const STEPS_BACK = 8;
const CHANNELS = ['a', 'b', 'c'];

/**
 * The store in Redis and the decisions of the port, asked the same at the same instant: the server's clock stands still
 * between the steps, so that replies are the same to the microsecond. Courses are played side by side, a step of each at once.
 */
testNeeding('libfaketime', 'random courses go in Redis as the decisions of the port have them', async () => {
  // The same each time: what a new seed finds belongs to whoever asked for it.
  const seed = Number(process.env['LEASEHOLD_SEED'] ?? 1);
  using faketime = new FakeTime();
  let wallMs = Date.UTC(2030, 0, 1);
  faketime.stop(wallMs);
  await using server = await startRedis({ faketime });
  await using raw = await connectRedis(server.url);
  const store = redisStore(server.url, { prefix: uniqueName() });
  onTestFinished(() => store.close());
  const courses = Array.from({ length: COURSES }, (_, number) => new Course(`r${number}`, seed + number));
  const clock = new Random(seed);
  const heard = new Map<string, Message[]>();
  let all = (): void => {};
  await Promise.all(
    CHANNELS.map((channel) =>
      store.subscribe(channel, ({ resource, ...rest }) => {
        const its = heard.get(resource) ?? [];
        heard.set(resource, its);
        its.push({ channel, ...rest });
      }),
    ),
  );
  // Messages of one connection come in the order in which they were sent.
  await store.subscribe('end', () => all());
  const sayEnd = async (): Promise<void> => {
    const said = new Promise<void>((resolve) => (all = resolve));
    await raw.publish('end', `free 0 - ${store.namespace}:{end}`);
    await said;
  };

  for (let round = 0; round < STEPS; round++) {
    const left = STEPS - round;
    // Even, where keys live for odd times: at its very last instant a key of the server is there still.
    if (left > STEPS_BACK) wallMs += clock.pick([2, 2, 2, 8, 8, 60, 60, 200, 700, 700, 5000, 12_000, 44_000]);
    else if (left === STEPS_BACK) {
      // What has run out by now must not come back with the clock: a server may not have looked at it yet.
      await raw.exists(...courses.flatMap(({ resource }) => keysOfResource(store.namespace, resource)));
      wallMs -= 24 * 3_600_000;
    } else wallMs += 2;
    faketime.stop(wallMs);
    const nowUs = wallMs * 1000;
    const steps = courses.map((course) => course.next(nowUs, left <= STEPS_BACK));
    const replies = await Promise.all(steps.map((step, index) => play(step, index)));
    await sayEnd();
    for (const [index, step] of steps.entries()) {
      const { resource, told } = courses[index] as Course;
      if (step.kind === 'lose') continue;
      const free = left <= STEPS_BACK ? anyone : (messages: readonly Message[]) => messages;
      const got = { reply: replies[index], messages: free(heard.get(resource) ?? []) };
      const wanted = { reply: step.reply, messages: free(step.messages) };
      if (isDeepStrictEqual(got, wanted)) continue;
      const course = told.map((line) => JSON.stringify(line)).join('\n');
      expect.fail(`seed ${seed}, ${resource}, step ${round}:\n${course}\nbut was ${JSON.stringify(got)}`);
    }
    heard.clear();
  }

  async function play(step: Step, index: number): Promise<unknown> {
    if (step.kind !== 'lose') return step.ask(store, call);
    const record = recordKey(store.namespace, `r${index}`);
    return raw.del(...step.keys.map((key) => record + key));
  }
});

testNeeding('libfaketime', 'a turn that no lease was before is not cut by who asks with a shorter ttl', async () => {
  using faketime = new FakeTime();
  const wallMs = Date.UTC(2030, 0, 1);
  faketime.stop(wallMs);
  await using server = await startRedis({ faketime });
  const store = redisStore(server.url, { prefix: uniqueName() });
  onTestFinished(() => store.close());
  const first = acquireOf('r', { mode: 'wait', quarantineMs: 60_000 });
  expect(await store.acquire(first, call)).toMatchObject({ kind: 'queued', reason: 'quarantine' });
  const opened = await store.acquire(acquireOf('r', { ttlMs: 30_000 }), call);
  expect(opened).toMatchObject({ kind: 'busy', reason: 'turn', remainingMs: 500 });
  faketime.stop(wallMs + 100);
  const short = await store.acquire(acquireOf('r', { ttlMs: 500 }), call);
  expect(short).toMatchObject({ kind: 'busy', reason: 'turn', remainingMs: 400 });
  faketime.stop(wallMs + 499);
  expect(await store.acquire({ ...first, quarantineMs: 0 }, call)).toMatchObject({ kind: 'granted' });
});
