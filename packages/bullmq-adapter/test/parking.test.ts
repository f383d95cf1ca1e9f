import { setTimeout as sleep } from 'node:timers/promises';
import { LeaseManager, MemoryLeaseStore, type Lease } from '@leasehold/core';
import { FaultyStore } from '@leasehold/core/testing';
import { describe, expect, it } from 'vitest';
import { Parking, type Lot, type Spot } from '../src/parking.ts';
import { bullError } from './fake-job.ts';

const RESOURCE = 'reports';

class Job {
  readonly id: string;
  readonly timestamp: number;
  promotions = 0;
  /** What the next promotions come to. */
  readonly refusals: Error[] = [];
  readonly #log: string[];

  constructor(id: string, timestamp: number, log: string[]) {
    this.id = id;
    this.timestamp = timestamp;
    this.#log = log;
  }

  moved(): void {}

  async promote(): Promise<void> {
    const refusal = this.refusals.shift();
    if (refusal !== undefined) throw refusal;
    this.promotions++;
    this.#log.push(this.id);
  }
}

/** Processes on one store: each has a manager and a part of the parking place. */
function world() {
  const memory = new MemoryLeaseStore();
  const log: string[] = [];
  const process = () => {
    const store = new FaultyStore(memory);
    const manager = new LeaseManager({ store, ttl: 2000 });
    const parking = Parking.of(manager);
    const lot = parking.open();
    return { store, manager, parking, lot };
  };
  const job = (id: string, timestamp = 0): Job => new Job(id, timestamp, log);
  return { log, process, job, holder: new LeaseManager({ store: memory, ttl: 2000 }) };
}

type Process = ReturnType<ReturnType<typeof world>['process']>;

/** What a run does whose resource is busy. */
async function refused({ manager, lot }: Process, job: Job, resource = RESOURCE): Promise<Spot> {
  const question = lot.ask(resource);
  const result = await manager.tryAcquire(resource, { park: true });
  if (result.acquired) throw new Error('it is free');
  return question.refused(job, result.holder?.fencingToken);
}

async function parked(process: Process, job: Job, forMs = 10_000): Promise<void> {
  const spot = await refused(process, job);
  spot.moved(forMs);
  spot.ready();
}

/** Until nothing more happens by itself. */
async function settle(): Promise<void> {
  for (let turn = 0; turn < 30; turn++) await new Promise(setImmediate);
}

async function released(lease: Lease): Promise<void> {
  await lease.release();
  await settle();
}

describe('a resource that becomes free', () => {
  it('brings back one job, the oldest; the next when that one has had it', async () => {
    const { log, process, job, holder } = world();
    const lease = await holder.acquire(RESOURCE);
    const one = process();
    for (const [id, at] of [
      ['b', 2],
      ['c', 3],
      ['a', 1],
    ] as const) {
      await parked(one, job(id, at));
    }
    await released(lease);
    expect(log).toEqual(['a']);
    for (const log_ of [
      ['a', 'b'],
      ['a', 'b', 'c'],
    ]) {
      const mine = await one.manager.acquire(RESOURCE);
      one.lot.begins(RESOURCE);
      await settle();
      await released(mine);
      expect(log).toEqual(log_);
    }
    expect(one.parking.size).toBe(0);
  });

  it('passes over jobs that are not delayed any more', async () => {
    const { log, process, job, holder } = world();
    const lease = await holder.acquire(RESOURCE);
    const one = process();
    const [gone, elsewhere, here] = [job('gone', 1), job('elsewhere', 2), job('here', 3)];
    gone.refusals.push(bullError(-1));
    elsewhere.refusals.push(bullError(-3));
    for (const its of [gone, elsewhere, here]) await parked(one, its);
    await released(lease);
    expect(log).toEqual(['here']);
    expect(one.parking.size).toBe(0);
  });

  it('leaves alone jobs whose delay is over, which come by themselves', async () => {
    const { log, process, job, holder } = world();
    const lease = await holder.acquire(RESOURCE);
    const one = process();
    await parked(one, job('late', 1), 5);
    await parked(one, job('early', 2));
    await sleep(10);
    await released(lease);
    expect(log).toEqual(['early']);
  });

  it('goes to the processes in turn', async () => {
    const { log, process, job, holder } = world();
    const lease = await holder.acquire(RESOURCE);
    const [one, two] = [process(), process()];
    for (const n of [1, 2, 3]) {
      await parked(one, job(`one ${n}`, n));
      await parked(two, job(`two ${n}`, n));
    }
    await released(lease);
    for (let n = 1; n < 6; n++) {
      const its = log.at(-1)?.startsWith('one') ? one : two;
      const mine = await its.manager.acquire(RESOURCE);
      its.lot.begins(RESOURCE);
      await settle();
      await released(mine);
    }
    expect(log).toHaveLength(6);
    for (let n = 1; n <= 6; n++) {
      const ofOne = log.slice(0, n).filter((id) => id.startsWith('one')).length;
      expect(Math.abs(n - 2 * ofOne)).toBeLessThanOrEqual(1);
    }
  });

  it('is passed on to the next process by one that has nobody left', async () => {
    const { log, process, job, holder } = world();
    const lease = await holder.acquire(RESOURCE);
    const [one, two] = [process(), process()];
    const ran = job('ran by itself');
    await parked(one, ran);
    await parked(two, job('two'));
    one.lot.arrived(ran);
    await released(lease);
    expect(log).toEqual(['two']);
    expect(await holder.inspect(RESOURCE)).toMatchObject({ state: 'free' });
  });

  it('is passed on by a process that cannot reach its queue', async () => {
    const { log, process, job, holder } = world();
    const lease = await holder.acquire(RESOURCE);
    const [one, two] = [process(), process()];
    const stuck = job('stuck', 1);
    stuck.refusals.push(new Error('Connection is closed.'));
    await parked(one, stuck);
    await parked(one, job('as stuck as that', 2));
    await parked(two, job('two'));
    await released(lease);
    expect(log).toEqual(['two']);
  });

  it('wakes one job, however many workers of the process have parked', async () => {
    const { log, process, job, holder } = world();
    const lease = await holder.acquire(RESOURCE);
    const one = process();
    const second = { ...one, lot: one.parking.open() };
    await parked(one, job('first worker', 2));
    await parked(second, job('second worker', 1));
    await released(lease);
    expect(log).toEqual(['second worker']);
  });
});

describe('a message that comes early', () => {
  it('is kept while the job is being moved', async () => {
    const { log, process, job, holder } = world();
    const lease = await holder.acquire(RESOURCE);
    const one = process();
    const spot = await refused(one, job('moving'));
    await released(lease);
    spot.moved(10_000);
    await settle();
    expect(log).toEqual([]);
    spot.ready();
    await settle();
    expect(log).toEqual(['moving']);
  });

  it('goes to the next if the job was not put back', async () => {
    const { log, process, job, holder } = world();
    const lease = await holder.acquire(RESOURCE);
    const [one, two] = [process(), process()];
    const spot = await refused(one, job('one'));
    await parked(two, job('two'));
    await released(lease);
    expect(log).toEqual([]);
    spot.gone();
    spot.ready();
    await settle();
    expect(log).toEqual(['two']);
  });

  it('is kept while the answer that made it come is under way', async () => {
    const { log, process, job, holder } = world();
    const lease = await holder.acquire(RESOURCE);
    const one = process();
    const question = one.lot.ask(RESOURCE);
    one.store.once('acquire', { reply: 50 });
    const asked = one.manager.tryAcquire(RESOURCE, { park: true });
    await settle();
    await released(lease);
    expect(await asked).toMatchObject({ acquired: false });
    const spot = question.refused(job('refused'));
    spot.moved(10_000);
    spot.ready();
    await settle();
    expect(log).toEqual(['refused']);
  });

  it('is done with when the question brings the resource', async () => {
    const { log, process, job, holder } = world();
    const [one, two] = [process(), process()];
    const lease = await holder.acquire(RESOURCE);
    await parked(two, job('two'));
    const question = one.lot.ask(RESOURCE);
    one.manager.emit('free', { resource: RESOURCE });
    question.granted();
    question.over();
    await settle();
    expect(log).toEqual([]);
    await released(lease);
    expect(log).toEqual(['two']);
  });

  it('is passed on when the question comes to nothing', async () => {
    const { log, process, job, holder } = world();
    const [one, two] = [process(), process()];
    const lease = await holder.acquire(RESOURCE);
    const questions = [one.lot.ask(RESOURCE), one.lot.ask(RESOURCE)];
    await one.manager.tryAcquire(RESOURCE, { park: true });
    await parked(two, job('two'));
    await released(lease);
    for (const question of questions) {
      expect(log).toEqual([]);
      question.over();
      await settle();
    }
    expect(log).toEqual(['two']);
  });
});

describe('a job that begins while others of its process wait', () => {
  it('leaves their name at the store', async () => {
    const { log, process, job, holder } = world();
    const lease = await holder.acquire(RESOURCE);
    const one = process();
    await parked(one, job('a', 1));
    await parked(one, job('b', 2));
    await released(lease);
    // As if it had come back by itself: no acquisition with `park` since.
    const mine = await one.manager.acquire(RESOURCE);
    one.lot.begins(RESOURCE);
    await settle();
    await released(mine);
    expect(log).toEqual(['a', 'b']);
  });

  it('is no loss when its lease has just ended', async () => {
    const { log, process, job, holder } = world();
    const lease = await holder.acquire(RESOURCE);
    const one = process();
    const spot = await refused(one, job('a'));
    await released(lease);
    one.lot.begins(RESOURCE);
    await settle();
    spot.moved(10_000);
    spot.ready();
    await settle();
    expect(log).toEqual(['a']);
    expect(await holder.inspect(RESOURCE)).toMatchObject({ state: 'free' });
  });

  it('brings back the next at once when the resource is free by then', async () => {
    const { log, process, job, holder } = world();
    const lease = await holder.acquire(RESOURCE);
    const [one, two] = [process(), process()];
    await parked(two, job('two'));
    await parked(one, job('one'));
    // Told of it is the other one.
    await released(lease);
    one.lot.begins(RESOURCE);
    await settle();
    expect(log).toEqual(['two', 'one']);
    expect(one.store.calls.read).toBe(0);
  });

  it('asks for nothing when nobody waits', async () => {
    const { process } = world();
    const one = process();
    one.lot.begins(RESOURCE);
    await settle();
    expect(one.store.calls.acquire).toBe(0);
  });
});

describe('a job that was brought back and taken by another process', () => {
  it('is followed by the next of the process that brought it back, while it runs', async () => {
    const { log, process, job, holder } = world();
    const lease = await holder.acquire(RESOURCE);
    const one = process();
    await parked(one, job('a', 1));
    await parked(one, job('b', 2));
    await released(lease);
    expect(log).toEqual(['a']);
    const elsewhere = await holder.acquire(RESOURCE);
    // Its name is at the store again.
    const named = one.store.next('acquire', 'settled');
    await named;
    await settle();
    await released(elsewhere);
    expect(log).toEqual(['a', 'b']);
  });

  it('is followed by the next also when it has ended before that could be seen', async () => {
    const { log, process, job, holder } = world();
    const lease = await holder.acquire(RESOURCE);
    const one = process();
    await parked(one, job('a', 1));
    await parked(one, job('b', 2));
    await released(lease);
    await holder.run(RESOURCE, () => {});
    expect(log).toEqual(['a']);
    await expect.poll(() => log).toEqual(['a', 'b']);
  });

  it('is not followed before it has begun, however long that takes', async () => {
    const { log, process, job, holder } = world();
    const lease = await holder.acquire(RESOURCE);
    const one = process();
    await parked(one, job('a', 1));
    await parked(one, job('b', 2));
    await released(lease);
    const looks = async (): Promise<number> => one.store.calls.read;
    await expect.poll(looks).toBeGreaterThan(4);
    expect(log).toEqual(['a']);
    // It begins in this process after all.
    const mine = await one.manager.acquire(RESOURCE);
    one.lot.begins(RESOURCE);
    await settle();
    const { read } = one.store.calls;
    await released(mine);
    expect(log).toEqual(['a', 'b']);
    expect(one.store.calls.read).toBe(read);
  });
});

describe('a job that was brought back while its process had not heard of the last holders', () => {
  it('is not taken for one that has come and gone', async () => {
    const { log, process, job, holder } = world();
    const lease = await holder.acquire(RESOURCE);
    const [one, two] = [process(), process()];
    await parked(one, job('one', 1));
    await parked(two, job('two a', 2));
    await parked(two, job('two b', 3));
    await released(lease);
    const mine = await one.manager.acquire(RESOURCE);
    one.lot.begins(RESOURCE);
    await settle();
    await released(mine);
    await expect.poll(async () => two.store.calls.read).toBeGreaterThan(4);
    expect(log).toEqual(['one', 'two a']);
  });
});

describe('what is kept', () => {
  const fill = (lot: Lot, resource: string, jobs: readonly Job[]): void => {
    for (const job of jobs) {
      const spot = lot.ask(resource).refused(job);
      spot.moved(60_000);
      spot.ready();
    }
  };

  it('has an end for each resource and in all', () => {
    const { process, job } = world();
    const { lot, parking } = process();
    fill(
      lot,
      RESOURCE,
      Array.from({ length: 10_100 }, (_, n) => job(`${n}`)),
    );
    expect(parking.size).toBe(10_000);
    for (let n = 0; n < 91_000; n++) fill(lot, `customer:${n}`, [job(`c${n}`)]);
    expect(parking.size).toBe(100_000);
  });

  it('is nothing of resources that nobody waits for, were there a million of them', () => {
    const { process } = world();
    const { lot, parking } = process();
    for (let n = 0; n < 1_000_000; n++) {
      const question = lot.ask(`order:${n}`);
      if (n % 2 === 0) question.granted();
      question.over();
    }
    expect(parking.size).toBe(0);
    expect(parking.resources).toBe(0);
  });

  it('is one place for a job, the latest', async () => {
    const { process, job } = world();
    const { lot, parking } = process();
    const its = job('a');
    for (let n = 0; n < 3; n++) {
      lot.arrived(its);
      fill(lot, RESOURCE, [its]);
    }
    expect(parking.size).toBe(1);
    lot.arrived(job('a'));
    expect(parking.size).toBe(0);
  });

  it('comes back when the worker closes, so that other processes can wait for it', async () => {
    const { log, process, job, holder } = world();
    const lease = await holder.acquire(RESOURCE);
    const [one, two] = [process(), process()];
    for (const n of [3, 1, 2]) await parked(one, job(`${n}`, n));
    await one.lot.close(2);
    expect(log).toEqual(['1', '2']);
    expect(one.parking.size).toBe(0);
    // The message still goes to the first, which passes it on.
    await parked(two, job('two'));
    await released(lease);
    expect(log).toEqual(['1', '2', 'two']);
    expect(one.manager.listenerCount('free')).toBe(1);
  });
});
