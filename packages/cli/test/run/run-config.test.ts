import {
  LeaseholdError,
  LeaseManager,
  MemoryLeaseStore,
  type LeaseStore,
  type RunCancelledError,
} from '@leasehold/core';
import { FaultyStore } from '@leasehold/core/testing';
import { describe, expect, test, vi } from 'vitest';

import { ConfigFileError } from '../../src/config/problem.ts';
import { defineJob, type AnyJobHandler, type JobContext } from '../../src/run/context.ts';
import { Running } from '../../src/run/running.ts';
import { runConfig, type RunningConfig } from '../../src/run/run-config.ts';
import { Gate } from './support/gate.ts';
import { recordingLog } from './support/log.ts';
import { cronJob, intervalJob, configOf } from './support/settings.ts';

type Handlers = Readonly<Record<string, AnyJobHandler>>;

function memory(): LeaseStore {
  return new MemoryLeaseStore({ prefix: 'test' });
}

async function get({ port }: RunningConfig, path: string): Promise<{ readonly status: number; readonly body: string }> {
  const response = await fetch(`http://127.0.0.1:${port}${path}`);
  return { status: response.status, body: await response.text() };
}

describe('a handler', () => {
  test('of a cron job is told its tick, and logs with job, resource and token', async () => {
    const { log, lines } = recordingLog();
    const ran = new Gate<JobContext>();
    const handlers: Handlers = {
      report: defineJob((context) => {
        context.log.info({ pages: 3 }, 'written');
        ran.open(context);
      }),
    };
    await using running = await runConfig(configOf([cronJob('report', { lease: { resource: 'reports' } })]), {
      handlers,
      log,
      store: memory(),
    });
    const { job, run, lease, signal } = await ran.opened;
    expect(job).toEqual({ name: 'report', id: null, data: undefined });
    expect(run).toEqual({ tick: expect.any(Date), trigger: 'schedule', attempt: 1 });
    expect(run.tick?.getMilliseconds()).toBe(0);
    expect(signal).toBe(lease.signal);
    const line = lines.find(({ msg }) => msg === 'written');
    expect(line).toMatchObject({ job: 'report', resource: 'reports', token: lease.fencingToken, pages: 3 });
    await running.close();
  });

  test('of an interval job runs at once, without a tick', async () => {
    const ran = new Gate<JobContext>();
    await using running = await runConfig(configOf([intervalJob('poll')]), {
      handlers: { poll: (context: JobContext) => ran.open(context) },
      log: recordingLog().log,
      store: memory(),
    });
    const { run, lease } = await ran.opened;
    expect(run).toEqual({ tick: null, trigger: 'interval', attempt: 1 });
    expect(lease.grant.resource).toBe('test/poll');
    await running.close();
  });

  test('that asks for a fence of another job is told where to name it', async () => {
    const fences = new Map([['ledger', { kind: 'redis', redis: 'redis://127.0.0.1:1', timeoutMs: 100 } as const]]);
    const ran = new Gate<unknown>();
    const handler = ({ fences }: JobContext): void => {
      try {
        void fences.ledger;
        ran.open('nothing');
      } catch (error) {
        ran.open(error);
      }
    };
    await using running = await runConfig(configOf([intervalJob('poll')], { fences }), {
      handlers: { poll: handler },
      log: recordingLog().log,
      store: memory(),
    });
    expect(await ran.opened).toMatchObject({ code: 'CONFIG', option: 'jobs.poll.lease.fences' });
    await running.close();
  });
});

describe('the start', () => {
  test('names all that cannot work at once, and leaves nothing behind', async () => {
    const jobs = [
      intervalJob('a'),
      intervalJob('b', { isolate: 'thread' }),
      cronJob('c', { expression: '61 * * * *' }),
      intervalJob('d'),
    ];
    const { log, lines } = recordingLog();
    let began = false;
    const handlers: Handlers = { a: () => (began = true), b: () => {}, c: () => {}, mistyped: () => {} };
    const failed = await runConfig(configOf(jobs), { handlers, log, store: memory() }).catch((error: unknown) => error);
    expect(failed).toBeInstanceOf(ConfigFileError);
    const paths = (failed as ConfigFileError).problems.map(({ path }) => path);
    expect(paths).toEqual(['jobs', 'jobs.b.isolate', 'jobs.d.handler', 'jobs.c.expression']);
    expect(began).toBe(false);
    expect(lines.filter(({ level }) => level > 20)).toEqual([]);
  });

  test('is of the jobs that were asked for alone, and refused for others', async () => {
    const both = configOf([intervalJob('a'), intervalJob('b')]);
    const ran: string[] = [];
    const began = new Gate();
    const handlers: Handlers = { b: () => (ran.push('b'), began.open()) };
    const { log } = recordingLog();
    await using running = await runConfig(both, { handlers, log, store: memory(), only: ['b'] });
    await began.opened;
    await running.close();
    expect(ran).toEqual(['b']);
    const other = runConfig(both, { handlers, log, store: memory(), only: ['c'] });
    await expect(other).rejects.toThrow("jobs: has no job 'c'; there are a, b");
  });

  test('is refused with a port that somebody else has', async () => {
    await using first = await runConfig(configOf([]), { log: recordingLog().log, store: memory() });
    const server = { listen: { host: '127.0.0.1', port: first.port as number } };
    const second = runConfig(configOf([], { server }), { log: recordingLog().log, store: memory() });
    await expect(second).rejects.toThrow(/server\.listen: \S.* cannot be listened on \(EADDRINUSE\)/);
    await first.close();
  });

  test('is refused by a store that refuses us, and not by one that is out of reach', async () => {
    const refusing = new FaultyStore(memory());
    refusing.set('read', { reply: new LeaseholdError('STORE_AUTH', 'no') });
    const { log } = recordingLog();
    await expect(runConfig(configOf([]), { log, store: refusing })).rejects.toMatchObject({ code: 'STORE_AUTH' });

    const silent = new FaultyStore(memory());
    silent.set('read', { request: 'lost' });
    // Asked for up to some 60 ms, with leases so short.
    const job = intervalJob('poll', { lease: { ttlMs: 300 } });
    await using running = await runConfig(configOf([job]), { handlers: { poll: () => {} }, log, store: silent });
    const { status, body } = await get(running, '/readyz');
    expect([status, JSON.parse(body)]).toEqual([503, expect.objectContaining({ status: 'degraded' })]);
    silent.set('read', {});
    await running.ready;
    expect(await get(running, '/readyz')).toMatchObject({ status: 200 });
    await running.close();
  });

  test('that is interrupted by close begins nothing, and ready rejects', async () => {
    const store = new FaultyStore(memory());
    store.set('read', { request: 'lost' });
    const asked = store.next('read', 'sent');
    const { log, lines } = recordingLog();
    const manager = new LeaseManager({ store });
    await using running = new Running(configOf([intervalJob('poll')]), manager, log);
    let began = false;
    const started = running.start(new Map([['poll', () => (began = true)]]));
    await asked;
    await running.close();
    await started;
    await expect(running.ready).rejects.toMatchObject({ code: 'MANAGER_CLOSED' });
    expect(began).toBe(false);
    expect(lines).toEqual([]);
  });
});

describe('the status server', () => {
  test('answers /livez while the store does not, and /readyz only while it does', async () => {
    const store = new FaultyStore(memory());
    // A refresh interval of 100 ms.
    const job = intervalJob('poll', { lease: { ttlMs: 300 } });
    await using running = await runConfig(configOf([job]), {
      handlers: { poll: () => {} },
      log: recordingLog().log,
      store,
    });
    await running.ready;
    expect(await get(running, '/readyz')).toMatchObject({
      status: 200,
      body: expect.stringContaining('"status":"ready"'),
    });
    store.set('read', { request: 'lost' });
    await vi.waitFor(async () => expect(await get(running, '/readyz')).toMatchObject({ status: 503 }), {
      interval: 20,
    });
    expect(await get(running, '/livez')).toEqual({ status: 200, body: 'ok\n' });
    store.set('read', {});
    await vi.waitFor(async () => expect(await get(running, '/readyz')).toMatchObject({ status: 200 }), {
      interval: 20,
    });
    expect((await get(running, '/metrics')).body).toMatch(
      /^leasehold_store_errors_total\{code="STORE_UNAVAILABLE"\} [1-9]/m,
    );
    await running.close();
  });

  test('counts runs by outcome, how long they took, leases, skips and the lag of the event loop', async () => {
    const goes = new Gate();
    const began = new Gate();
    const handlers: Handlers = {
      good: () => 'fine',
      bad: () => Promise.reject(new Error('broken')),
      long: () => (began.open(), goes.opened),
    };
    const jobs = [intervalJob('good'), intervalJob('bad'), intervalJob('long')];
    await using running = await runConfig(configOf(jobs), { handlers, log: recordingLog().log, store: memory() });
    await began.opened;
    await vi.waitFor(async () => {
      const { body } = await get(running, '/metrics');
      expect(body).toMatch(/^leasehold_runs_total\{job="good",outcome="done"\} 1$/m);
      expect(body).toMatch(/^leasehold_runs_total\{job="bad",outcome="failed"\} 1$/m);
      expect(body).toMatch(/^leasehold_runs_total\{job="long",outcome="lost"\} 0$/m);
      expect(body).toMatch(/^leasehold_runs_active\{job="long"\} 1$/m);
      expect(body).toMatch(/^leasehold_run_duration_seconds_count\{job="good"\} 1$/m);
      expect(body).toMatch(/^leasehold_held\{class="[^"]+"\} 1$/m);
      expect(body).toMatch(/^nodejs_eventloop_lag_seconds /m);
    });
    goes.open();
    await running.close();
  });

  test('has nothing but three paths, and reads only', async () => {
    await using running = await runConfig(configOf([]), { log: recordingLog().log, store: memory() });
    expect(await get(running, '/')).toMatchObject({ status: 404 });
    expect(await get(running, '/livez?verbose')).toMatchObject({ status: 200 });
    const posted = await fetch(`http://127.0.0.1:${running.port}/livez`, { method: 'POST', body: 'x' });
    expect([posted.status, posted.headers.get('allow')]).toEqual([405, 'GET, HEAD']);
    await running.close();
  });
});

describe('closing', () => {
  test('goes in order: not ready, no more work, grace, abort, settle, release, connections', async () => {
    const { log, lines } = recordingLog();
    const order: string[] = [];
    const began = new Gate();
    const store = new FaultyStore(memory());
    store.set('release', { request: 50 });
    const released = store.next('release', 'ran').then(() => order.push('released'));
    const handlers: Handlers = {
      long: ({ signal }: JobContext) =>
        new Promise((_resolve, reject) => {
          signal.addEventListener('abort', () => {
            order.push(`aborted: ${(signal.reason as RunCancelledError).reason}`);
            // Settles when twice the grace is over, before which nothing may be released.
            setTimeout(() => {
              order.push('settled');
              reject(signal.reason as Error);
            }, 300);
          });
          began.open();
        }),
    };
    await using running = await runConfig(
      configOf([intervalJob('long')], { shutdown: { graceMs: 200, exitOnAbandon: false } }),
      {
        handlers,
        log,
        store,
      },
    );
    await began.opened;
    const closed = running.close();
    const { status, body } = await get(running, '/readyz');
    order.push(`readyz ${status} ${(JSON.parse(body) as { status: string }).status}`);
    expect(await get(running, '/livez')).toMatchObject({ status: 200 });
    expect(await closed).toEqual({ unsettled: 0 });
    await released;
    expect(order).toEqual(['readyz 503 closing', 'aborted: shutdown', 'settled', 'released']);
    await expect(get(running, '/livez')).rejects.toThrow('fetch failed');
    const said = lines
      .filter(({ level, msg }) => level >= 30 && !msg.startsWith('run cancelled'))
      .map(({ msg }) => msg);
    expect(said.slice(said.findIndex((msg) => msg.startsWith('closing')))).toEqual([
      'closing: no more work is taken; waiting for 1 run, 1 s left',
      'the grace is over, runs are aborted; waiting for 1 run, 5 s left',
      'run gave up, as it was told to end',
      'all runs have ended',
      'leases are given up',
      'fences and connections are closed',
      'closed',
    ]);
  });

  test('lets a run end by itself within the grace', async () => {
    const began = new Gate();
    const goes = new Gate();
    let aborted = false;
    const handlers: Handlers = {
      long: async ({ signal }: JobContext) => {
        began.open();
        await goes.opened;
        aborted = signal.aborted;
      },
    };
    await using running = await runConfig(
      configOf([intervalJob('long')], { shutdown: { graceMs: 20_000, exitOnAbandon: false } }),
      {
        handlers,
        log: recordingLog().log,
        store: memory(),
      },
    );
    await began.opened;
    const closed = running.close();
    goes.open();
    expect(await closed).toEqual({ unsettled: 0 });
    expect(aborted).toBe(false);
  });
});
