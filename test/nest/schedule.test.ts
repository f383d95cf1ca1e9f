import 'reflect-metadata';
import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { Leased, LeasedCron, leasedCron, type CronRun, type LeasedNodeCron, type LeasedOptions } from '@leasehold/cron';
import type { Abstract, INestApplicationContext, Type } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { Cron, Interval, ScheduleModule, SchedulerRegistry, Timeout } from '@nestjs/schedule';
import { describe, expect, inject, test } from 'vitest';

import { uniqueName } from '../support/redis-client.ts';

const here = (path: string): string => fileURLToPath(new URL(path, import.meta.url));
// Says what is wrong in the fixture as well.
await promisify(execFile)(process.execPath, [here('../../node_modules/typescript/bin/tsc'), '-p', here('fixtures')]);
const services = (await import(/* @vite-ignore */ here('.cache/services.js'))) as Services;

/** What is in fixtures/services.ts, which the compiler of this file would compile in the other mode. */
interface Services {
  readonly Fleet: Abstract<unknown>;
  readonly Payments: Type;
  readonly Forgotten: Type<{ run(): Promise<void> }>;
}

interface Run {
  readonly method: string;
  readonly at: number;
  readonly run: CronRun | undefined;
}

/** What has run in all applications of a test. */
class Runs {
  readonly all: Run[] = [];
  #changed = (): void => {};

  add(method: string, run: CronRun | undefined): void {
    this.all.push({ method, run, at: performance.now() });
    this.#changed();
  }

  of(method: string): readonly Run[] {
    return this.all.filter((run) => run.method === method);
  }

  /** Resolves when each of these has run so often. */
  async have(count: number, ...methods: readonly string[]): Promise<void> {
    while (methods.some((method) => this.of(method).length < count)) {
      await new Promise<void>((resolve) => (this.#changed = resolve));
    }
  }
}

class App implements AsyncDisposable {
  readonly context: INestApplicationContext;
  readonly #cron: LeasedNodeCron;

  private constructor(context: INestApplicationContext, cron: LeasedNodeCron) {
    this.context = context;
    this.#cron = cron;
  }

  static async start(prefix: string, runs: Runs, ...providers: readonly Type[]): Promise<App> {
    const cron = leasedCron({ connection: inject('redisUrl'), prefix });
    const fleet = { cron, ran: (method: string, run?: CronRun) => runs.add(method, run) };
    const its = {
      module: class {},
      imports: [ScheduleModule.forRoot()],
      providers: [{ provide: services.Fleet, useValue: fleet }, ...providers],
    };
    return new App(await NestFactory.createApplicationContext(its, { logger: false, abortOnError: false }), cron);
  }

  get registry(): SchedulerRegistry {
    return this.context.get(SchedulerRegistry);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.context.close();
    await this.#cron.shutdown();
  }
}

describe('two applications of Nest', () => {
  test('run each tick of @Cron and each interval once, with @Leased above or below', async () => {
    const prefix = uniqueName('nest');
    const runs = new Runs();
    await using one = await App.start(prefix, runs, services.Payments);
    await using two = await App.start(prefix, runs, services.Payments);
    for (const { registry } of [one, two]) {
      expect([...registry.getCronJobs().keys()].sort()).toEqual(['above', 'below']);
      expect(registry.getIntervals()).toHaveLength(2);
    }
    await runs.have(3, 'above', 'below', 'own');
    await runs.have(2, 'interval-above', 'interval-below');
    for (const method of ['above', 'below', 'own']) {
      const ticks = runs.of(method).map(({ run }) => run?.tick?.getTime() ?? Number.NaN);
      expect(new Set(ticks).size, method).toBe(ticks.length);
      expect(ticks.every((tick) => tick % 1000 === 0)).toBe(true);
    }
    for (const method of ['interval-above', 'interval-below']) {
      const [first, second] = runs.of(method).map(({ at }) => at) as [number, number];
      expect(second - first, method).toBeGreaterThan(1200);
    }
    const tokens = runs.all.map(({ method, run }) => `${method} ${run?.fencingToken}`);
    expect(new Set(tokens).size).toBe(tokens.length);
  });

  test('a service that nobody registered never runs', async () => {
    const runs = new Runs();
    await using app = await App.start(uniqueName('nest'), runs, services.Forgotten);
    const forgotten = app.context.get(services.Forgotten);
    expect(() => forgotten.run()).toThrow(
      /^CONFIG: @Leased: Forgotten\.run was called before its object was registered/,
    );
    await app.registry.getCronJob('forgotten').fireOnTick();
    expect(runs.all).toEqual([]);
  });
});

/** An object with one method, as if these stood above it. */
function service(body: (run?: CronRun) => void, ...decorators: readonly unknown[]): { run(): Promise<void> } {
  class Service {
    async run(run?: CronRun): Promise<void> {
      body(run);
    }
  }
  const { prototype } = Service;
  const descriptor = Object.getOwnPropertyDescriptor(prototype, 'run') as TypedPropertyDescriptor<unknown>;
  const decorated = Reflect.decorate(decorators as MethodDecorator[], prototype, 'run', descriptor);
  Object.defineProperty(prototype, 'run', decorated);
  return new Service();
}

const daily = '0 3 * * *';
const leased = (options?: LeasedOptions): unknown => Leased(options);

describe('@Leased reads what @nestjs/schedule was told', () => {
  test.each<[string, string, string, ...unknown[]]>([
    [
      'an interval without minHold',
      'minHold',
      'Interval of Service.run names no inst',
      leased({ name: 'a' }),
      Interval(9),
    ],
    [
      'a timeout without minHold',
      'minHold',
      '@Timeout of Service.run names no inst',
      leased({ name: 'a' }),
      Timeout(9),
    ],
    ['an interval with a schedule', 'schedule', 'is not what @Int', Interval('a', 9), leased({ schedule: daily })],
    ['an instant', 'minHold', 'has an instant', leased(), Cron(new Date(), { name: 'a' })],
    [
      'what node-cron cannot read',
      'minHold',
      'is not an expression that node-cron can read',
      leased(),
      Cron('0 3 * *', { name: 'a' }),
    ],
    ['what node-cron reads otherwise', 'minHold', 'both must fit', leased(), Cron('0 3 1 * 1', { name: 'a' })],
    ['an offset for a zone', 'timezone', 'utcOffset', leased(), Cron(daily, { name: 'a', utcOffset: 60 })],
    ['no name', 'name', 'for Service.run; .* or the name that @Cron takes', leased(), Cron(daily)],
    [
      'another zone',
      'timezone',
      "'UTC' is not that of @Cron",
      leased({ timezone: 'UTC' }),
      Cron(daily, { name: 'a', timeZone: 'Asia/Kolkata' }),
    ],
    ['another schedule', 'schedule', 'is not that of', leased({ schedule: '* * * * *' }), Cron(daily, { name: 'a' })],
    ['two schedulers', '@LeasedCron', '@Cron would call it without', LeasedCron(daily, { name: 'a' }), Cron(daily)],
  ])('and refuses %s', async (_, option, message, ...decorators) => {
    await using cron = leasedCron({ connection: inject('redisUrl') });
    const instance = service(() => {}, ...decorators);
    const refused = expect.objectContaining({ option, message: expect.stringMatching(message) as unknown }) as Error;
    expect(() => cron.register(instance)).toThrow(refused);
  });

  test.each<[string, ...unknown[]]>([
    ['an instant with minHold', leased({ minHold: '1m' }), Cron(new Date(), { name: 'a' })],
    ['days that are read otherwise, with minHold', Cron('0 3 1 * 1', { name: 'a' }), leased({ minHold: '1m' })],
    ['a timeout with minHold', Timeout('a', 9), leased({ minHold: '1m' })],
    ['a name of its own', leased({ name: 'b', minHold: '1m' }), Interval('a', 9)],
  ])('and runs %s', async (_, ...decorators) => {
    await using cron = leasedCron({ connection: inject('redisUrl'), prefix: uniqueName('nest') });
    const runs: (CronRun | undefined)[] = [];
    const instance = service((run) => void runs.push(run), ...decorators);
    cron.register(instance);
    await Promise.all([instance.run(), instance.run()]);
    await instance.run();
    expect(runs.map((run) => run?.trigger)).toEqual(['schedule']);
  });

  test('and its zone: a call that is none of its times there begins no run', async () => {
    await using cron = leasedCron({ connection: inject('redisUrl'), prefix: uniqueName('nest') });
    const halfPast = new Date(Date.now() + 5.5 * 3_600_000);
    const [hour, minute] = [halfPast.getUTCHours(), halfPast.getUTCMinutes()];
    const runs: unknown[] = [];
    const make = (name: string, timeZone: string): { run(): Promise<void> } =>
      service(() => void runs.push(name), leased(), Cron(`* ${minute} ${hour} * * *`, { name, timeZone }));
    const [now, later] = [make('now', 'Asia/Kolkata'), make('later', 'UTC')];
    cron.register(now);
    cron.register(later);
    await Promise.all([now.run(), later.run()]);
    expect(runs).toEqual(['now']);
  });
});
