import 'reflect-metadata';
import { LeasedWorker, type LeasedJob, type LeasedWorkerOptions, type LeaseOptions } from '@leasehold/bullmq';
import { currentLease, LeaseManager, type Lease } from '@leasehold/core';
import { redisStore } from '@leasehold/core/redis';
import { BullModule, getQueueToken, OnWorkerEvent, Processor, WorkerHost } from '@nestjs/bullmq';
import { Injectable, Scope, type INestApplicationContext, type Provider, type Type } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import type { Job, Queue } from 'bullmq';
import { beforeAll, describe, expect, inject, test } from 'vitest';
import { aborted, connectionOf, emitted, Gate } from '../e2e/fixtures/bullmq-setup.ts';
import { connectRedis, uniqueName } from '../support/redis-client.ts';
import { startRedis } from '../support/redis-server.ts';

// The decorators are applied by hand: the compiler that runs the tests only takes types away.

const redisUrl = inject('redisUrl');

beforeAll(() => {
  BullModule.workerClass = LeasedWorker;
});

/** An application with one queue. */
class App implements AsyncDisposable {
  readonly context: INestApplicationContext;
  readonly queue: Queue;

  private constructor(context: INestApplicationContext, queue: Queue) {
    this.context = context;
    this.queue = queue;
  }

  static start(queue: string, ...providers: readonly Provider[]): Promise<App> {
    return App.startOn(redisUrl, queue, ...providers);
  }

  static async startOn(url: string, queue: string, ...providers: readonly Provider[]): Promise<App> {
    const its = {
      module: class {},
      imports: [BullModule.forRoot({ connection: connectionOf(url) }), BullModule.registerQueue({ name: queue })],
      providers: [...providers],
    };
    const context = await NestFactory.createApplicationContext(its, { logger: ['error'], abortOnError: false });
    return new App(context, context.get<Queue>(getQueueToken(queue)));
  }

  workerOf(processor: Type<WorkerHost>): LeasedWorker {
    return this.context.get(processor).worker as LeasedWorker;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.context.close();
  }
}

/** As `@Processor({ name, scope }, { concurrency: 3, lease })` above the class. */
function decorate(processor: Type<WorkerHost>, name: string, lease: Partial<LeaseOptions>, scope?: Scope): void {
  const resource: LeaseOptions['resource'] = (job) => `${name}:${job.data.key}`;
  // Nest's own type of these options knows no `lease`.
  const options = { lease: { resource, ...lease } } as Partial<LeasedWorkerOptions>;
  Processor({ name, ...(scope !== undefined && { scope }) }, { concurrency: 3, ...options })(processor);
}

describe('a processor of Nest', () => {
  test('runs its jobs under leases, and what it was injected knows of them', async () => {
    class Ledger {
      of(): Lease | undefined {
        return currentLease();
      }
    }
    Injectable()(Ledger);
    class Payments extends WorkerHost {
      readonly #ledger: Ledger;
      constructor(ledger: Ledger) {
        super();
        this.#ledger = ledger;
      }
      async process(job: LeasedJob, token?: string, signal?: AbortSignal): Promise<unknown> {
        return [job.lease.resource, this.#ledger.of() === job.lease, token === job.token, signal?.aborted];
      }
    }
    Reflect.defineMetadata('design:paramtypes', [Ledger], Payments);
    const name = uniqueName('jobs');
    decorate(Payments, name, {});
    await using app = await App.start(name, Payments, Ledger);
    expect(app.workerOf(Payments)).toBeInstanceOf(LeasedWorker);
    const completed = emitted(app.workerOf(Payments), 'completed');
    await app.queue.add('job', { key: 'a' });
    expect((await completed)[0]?.[1]).toEqual([`${name}:a`, true, true, false]);
  });

  test('has one job of a resource at a time, over all applications', async () => {
    let atOnce = 0;
    let most = 0;
    class Payments extends WorkerHost {
      async process(): Promise<void> {
        most = Math.max(most, ++atOnce);
        await new Promise((resolve) => setTimeout(resolve, 2));
        atOnce--;
      }
    }
    const name = uniqueName('jobs');
    decorate(Payments, name, {});
    await using app = await App.start(name, Payments);
    await using other = await App.start(name, Payments);
    const completed = emitted([app.workerOf(Payments), other.workerOf(Payments)], 'completed', 12);
    await app.queue.addBulk(Array.from({ length: 12 }, () => ({ name: 'job', data: { key: 'a' } })));
    const jobs = (await completed).map(([job]) => job as Job);
    expect(most).toBe(1);
    expect(jobs.every((job) => job.attemptsMade === 1)).toBe(true);
  });

  test('hears of busy resources, by its name for the event', async () => {
    const name = uniqueName('jobs');
    const heard: unknown[] = [];
    class Payments extends WorkerHost {
      async process(): Promise<string> {
        return 'done';
      }
      onBusy(job: Job, holder: unknown): void {
        heard.push([job.data.key, holder]);
      }
    }
    OnWorkerEvent('leaseBusy')(
      Payments.prototype,
      'onBusy',
      Object.getOwnPropertyDescriptor(Payments.prototype, 'onBusy') as PropertyDescriptor,
    );
    const manager = new LeaseManager({ store: redisStore(redisUrl, { prefix: name }) });
    decorate(Payments, name, { manager });
    await using app = await App.start(name, Payments);
    const held = await manager.acquire(`${name}:a`);
    const [busy, completed] = ['leaseBusy', 'completed'].map((event) => emitted(app.workerOf(Payments), event));
    await app.queue.add('job', { key: 'a' });
    await busy;
    await held.release();
    await completed;
    expect(heard[0]).toEqual(['a', expect.objectContaining({ fencingToken: held.fencingToken })]);
    await manager.close();
  });

  test('for each request: each job has an instance of its own, with a lease and a signal', async () => {
    const begun = new Gate();
    const seen = new Map<object, LeasedJob>();
    class Payments extends WorkerHost {
      async process(job: LeasedJob, _token?: string, signal?: AbortSignal): Promise<unknown> {
        seen.set(this, job);
        if (seen.size < 2) return;
        begun.open();
        throw await aborted(signal as AbortSignal);
      }
    }
    const name = uniqueName('jobs');
    decorate(Payments, name, {}, Scope.REQUEST);
    let worker: LeasedWorker | undefined;
    class Watched extends LeasedWorker {
      constructor(...args: ConstructorParameters<typeof LeasedWorker>) {
        super(...args);
        worker = this as LeasedWorker;
      }
    }
    BullModule.workerClass = Watched;
    await using app = await App.start(name, Payments);
    BullModule.workerClass = LeasedWorker;
    const failed = emitted(worker as LeasedWorker, 'failed');
    await app.queue.add('job', { key: 'a' });
    await app.queue.add('job', { key: 'b' });
    await begun.opened;
    const jobs = [...seen.values()];
    expect(jobs.map(({ lease }) => lease.resource).sort()).toEqual([`${name}:a`, `${name}:b`]);
    expect(worker?.cancelJob(jobs[1]?.id as string, 'not wanted')).toBe(true);
    expect((await failed)[0]?.[1]).toMatchObject({ code: 'RUN_CANCELLED', reason: 'caller' });
  });

  test('an application that closes hands its job on, and leaves no connection open', async () => {
    await using server = await startRedis();
    await using redis = await connectRedis(server.url);
    const clients = async (): Promise<number> => ((await redis.client('LIST')) as string).trim().split('\n').length;
    const begun = new Gate();
    class Payments extends WorkerHost {
      async process(_job: LeasedJob, _token?: string, signal?: AbortSignal): Promise<unknown> {
        begun.open();
        throw await aborted(signal as AbortSignal);
      }
    }
    class Successor extends WorkerHost {
      async process(job: LeasedJob): Promise<number> {
        return job.lease.fencingToken;
      }
    }
    const name = uniqueName('jobs');
    decorate(Payments, name, { grace: 0 });
    decorate(Successor, name, {});
    const before = await clients();
    const app = await App.startOn(server.url, name, Payments);
    await app.queue.add('job', { key: 'a' }, { attempts: 1 });
    await begun.opened;
    await app.context.close();
    await expect.poll(clients).toBe(before);
    await using next = await App.startOn(server.url, name, Successor);
    const completed = emitted(next.workerOf(Successor), 'completed');
    const [job] = (await completed)[0] as [Job];
    expect(job.attemptsMade).toBe(1);
  });
});
