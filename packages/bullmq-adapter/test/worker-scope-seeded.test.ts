import { afterEach, describe, expect, it, vi } from 'vitest';
import { LiveRuns } from '../src/live-runs.ts';
import { Term } from '../src/term.ts';
import { fakeJob } from './fake-job.ts';
import { aborted, FakeEngine, Town, TTL_MS, type OfficeWorker } from './office.ts';

type Rule = (town: Town, worker: OfficeWorker) => Promise<void>;

/** One job that waits at a door, and ignores its signal. */
async function deafJob(worker: OfficeWorker): Promise<{ ended: Promise<unknown>; finish: () => void }> {
  let finish = (): void => {};
  const { ended } = await worker.begin('deaf', () => new Promise<void>((resolve) => (finish = resolve)));
  return { ended, finish };
}

const rules = {
  async 'no job begins after a loss'(town, worker) {
    const processor = vi.fn();
    town.clock.block(TTL_MS);
    await worker.run(fakeJob(), processor).catch(() => {});
    expect(processor).not.toHaveBeenCalled();
  },
  async 'no job begins once it steps down'(_, worker) {
    const processor = vi.fn();
    const { ended, finish } = await deafJob(worker);
    const paused = worker.candidate.pause();
    await worker.run(fakeJob(), processor).catch(() => {});
    finish();
    await Promise.all([paused, ended]);
    expect(processor).not.toHaveBeenCalled();
  },
  async 'BullMQ is paused before any job hears of it'(town, worker) {
    let fetched = true;
    const { ended } = await worker.begin('1', (signal) => {
      signal.addEventListener('abort', () => (fetched = worker.engine.fetches));
      return aborted(signal);
    });
    await worker.manager.revoke('payments');
    await town.clock.advanceAsync(TTL_MS / 3);
    await ended;
    expect(fetched).toBe(false);
  },
  async 'nothing is given back while a job runs'(_, worker) {
    const { ended, finish } = await deafJob(worker);
    const paused = worker.candidate.pause();
    await new Promise(setImmediate);
    const calls = worker.store.calls.release;
    finish();
    await Promise.all([paused, ended]);
    expect(calls).toBe(0);
  },
  async 'nothing is given back beside a processor that was left behind'(_, worker) {
    const { ended, finish } = await deafJob(worker);
    await worker.candidate.close(true);
    await ended;
    const calls = worker.store.calls.release;
    finish();
    expect(calls).toBe(0);
  },
  async 'a lease with a processor that was left behind runs out'(town, worker) {
    const { ended, finish } = await deafJob(worker);
    await worker.candidate.close(true);
    await ended;
    await town.clock.advanceAsync(2 * TTL_MS);
    const info = await worker.manager.inspect('payments');
    finish();
    expect(info?.state).toBe('expired');
  },
  async 'no job runs beside a copy of itself'(_, worker) {
    const processor = vi.fn();
    const { ended, finish } = await deafJob(worker);
    await worker.run(fakeJob({ id: 'deaf' }), processor).catch(() => {});
    finish();
    await ended;
    expect(processor).not.toHaveBeenCalled();
  },
} satisfies Record<string, Rule>;

/** What a mistake in the code would come to. */
const bugs: Record<keyof typeof rules, (worker: OfficeWorker) => Promise<void>> = {
  async 'no job begins after a loss'() {
    vi.spyOn(Term.prototype, 'isOpen', 'get').mockImplementation(function (this: Term) {
      return this.end === undefined;
    });
  },
  async 'no job begins once it steps down'() {
    vi.spyOn(Term.prototype, 'isOpen', 'get').mockImplementation(function (this: Term) {
      return this.lease.isHeld();
    });
  },
  async 'BullMQ is paused before any job hears of it'() {
    const { pause } = FakeEngine.prototype;
    vi.spyOn(FakeEngine.prototype, 'pause').mockImplementation(async function (this: FakeEngine) {
      await new Promise(setImmediate);
      await pause.call(this);
    });
  },
  async 'nothing is given back while a job runs'() {
    vi.spyOn(Term.prototype, 'enter').mockImplementation(() => {});
  },
  async 'nothing is given back beside a processor that was left behind'() {
    vi.spyOn(Term.prototype, 'leaveBehind').mockImplementation(() => {});
  },
  async 'a lease with a processor that was left behind runs out'(worker) {
    const job = fakeJob();
    await worker.run(job, () => {});
    const { lease } = job as unknown as { lease: { abandon(): void } };
    vi.spyOn(Object.getPrototypeOf(lease) as typeof lease, 'abandon').mockImplementation(() => {});
  },
  async 'no job runs beside a copy of itself'() {
    const { enter } = LiveRuns.prototype;
    vi.spyOn(LiveRuns.prototype, 'enter').mockImplementation(function (this: LiveRuns, run) {
      void enter.call(this, run);
      return [];
    });
  },
};

describe('rules of a worker in office', () => {
  afterEach(() => void vi.restoreAllMocks());

  describe.each(Object.keys(rules) as (keyof typeof rules)[])('%s', (name) => {
    async function inOffice(): Promise<[Town, OfficeWorker]> {
      const town = new Town();
      const worker = town.worker();
      await worker.elected();
      return [town, worker];
    }

    it('holds', async () => {
      await rules[name](...(await inOffice()));
    });

    it('seeded bug: it is found where it does not', async () => {
      const [town, worker] = await inOffice();
      await bugs[name](worker);
      await expect(rules[name](town, worker)).rejects.toThrow(/expected/);
    });
  });
});
