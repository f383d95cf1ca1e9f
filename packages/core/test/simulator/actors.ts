import { LeaseManager } from '../../src/lease/manager.ts';
import type { Lease } from '../../src/lease/lease.ts';
import type { Ticket } from '../../src/lease/ticket.ts';
import { LeaseholdError } from '../../src/errors.ts';
import { onAbort } from '../../src/abort-listeners.ts';
import { qualify } from '../../src/names.ts';
import type { MemoryTx } from '../../src/fence/memory.ts';
import type { AcquireOptions } from '../../src/options.ts';
import type { LeaseStore } from '../../src/store/store.ts';
import type { Recording } from '../../src/testing/history/recorder.ts';
import { RecordingFence } from '../../src/testing/history/recording-fence.ts';
import { recordStore } from '../../src/testing/history/recording-store.ts';
import type { Bug } from './bug.ts';
import { Link } from './network.ts';
import type { Plan } from './plan.ts';
import { SimProcess, START_MS } from './process.ts';
import { RemoteFence, type FenceServer, type WriteBody } from './remote-fence.ts';
import { RemoteStore } from './remote-store.ts';
import type { StoreServer } from './server.ts';
import type { Witness } from './witness.ts';
import { PLAINLY, type ProcessPlan, type Step } from './ways.ts';
import type { World } from './world.ts';

/** What all processes of a run share. */
export interface Scene {
  readonly world: World;
  readonly plan: Plan;
  readonly bug: Bug;
  readonly store: StoreServer;
  readonly resource: FenceServer;
  readonly witness: Witness | undefined;
  /** Gives a ticket to another process, which adopts it. */
  readonly handOn: (from: Actor, ticket: Ticket, step: Step) => void;
}

/** A process with its manager, and the work that it does. */
export class Actor {
  readonly plan: ProcessPlan;
  readonly process: SimProcess;
  readonly store: RemoteStore;
  readonly fence: RecordingFence<MemoryTx>;
  readonly remoteFence: RemoteFence;
  readonly manager: LeaseManager;
  isDone = false;
  /** The step that it is at: a later life goes on with the one after it. */
  at: number;
  readonly #scene: Scene;
  #writes = 0;
  #besides = 0;

  constructor(scene: Scene, plan: ProcessPlan, life: number, from: number) {
    const { world, store, resource, bug } = scene;
    this.#scene = scene;
    this.plan = plan;
    this.at = from;
    const name = life === 1 ? plan.id : `${plan.id}${life}`;
    const seed = plan.seed + life * 7919;
    this.process = new SimProcess(world, name, seed, 1 + plan.driftPpm / 1_000_000, plan.wallMs);
    this.store = new RemoteStore(world, this.process, new Link(world, seed + 1), store, bug.store);
    this.remoteFence = new RemoteFence(world, this.process, new Link(world, seed + 2), resource, bug.fenceTimeoutMs);
    this.fence = new RecordingFence(bug.reach?.(this.remoteFence) ?? this.remoteFence, this.process.recorder);
    this.manager = new LeaseManager({
      store: this.#storeOf(bug),
      clock: this.process,
      ttl: scene.plan.ttlMs,
      quarantine: plan.quarantine,
      linger: scene.plan.lingerMs ?? 0,
      owner: name,
      logger: silent,
      ...bug.manager,
    });
    this.process.recorder.listen(this.manager);
    scene.witness?.manager(name, this.manager);
  }

  #storeOf({ client, hand }: Bug): LeaseStore {
    const port = client?.(this.store.port) ?? this.store.port;
    const recorded = recordStore(port, this.process.recorder);
    const handed = hand?.(recorded) ?? recorded;
    return this.#scene.witness?.store(this.process.name, handed) ?? handed;
  }

  /** All its steps, then, when all is calm, each resource once more, and the end. */
  async live(): Promise<void> {
    const { world, plan } = this.#scene;
    const { process } = this;
    try {
      for (let side = 0; side < this.plan.sides; side++) void this.#keepBeside(`${this.plan.id}-side${side}`);
      for (; this.at < this.plan.steps.length; this.at++) {
        const step = this.plan.steps[this.at] as Step;
        await process.wait(step.afterMs);
        if (world.nowMs > startMs + plan.calmMs) break;
        await this.#attempt(step);
      }
      const leftMs = startMs + plan.calmMs - world.nowMs;
      if (leftMs > 0) await process.wait(leftMs + 1);
      for (const resource of plan.resources) await this.#attempt({ ...LAST, resource, waitMs: 20 * plan.ttlMs });
      while (this.#besides > 0) await process.wait(plan.ttlMs / 10);
      await this.manager.close({ grace: plan.ttlMs, abandonAfter: 4 * plan.ttlMs });
      process.recorder.line('died', 'ok', { outcome: 'ended' });
      process.isAlive = false;
    } catch (error) {
      world.problems.push(`${process.name} failed: ${String(error)}\n${(error as Error).stack ?? ''}`);
    }
    this.isDone = true;
  }

  kill(): void {
    if (this.store.isReleasing) this.#scene.world.reach('killed with a release under way');
    this.process.recorder.line('died', 'ok', { outcome: 'killed' });
    this.process.isAlive = false;
    this.isDone = true;
  }

  /** Takes over what another one has handed on, beside its own steps. */
  async adopt(ticket: Ticket, step: Step): Promise<void> {
    this.#besides++;
    await this.#tolerant(async () => {
      const lease = await this.manager.adopt(ticket, { fences: [this.fence] });
      await this.#work(lease, step).finally(() => lease.release());
    });
    this.#besides--;
  }

  /** Holds what nobody else wants until all is calm, whatever happens to it. */
  async #keepBeside(resource: string): Promise<void> {
    const { process } = this;
    const { world, plan } = this.#scene;
    this.#besides++;
    while (world.nowMs < startMs + plan.calmMs) {
      await this.#tolerant(async () => {
        const lease = await this.manager.acquire(resource, { fences: [this.fence], wait: plan.ttlMs });
        const leftMs = startMs + plan.calmMs - world.nowMs;
        await this.#pause(leftMs, lease.signal, false);
        await lease.release();
      });
      await process.wait(plan.ttlMs / 10);
    }
    this.#besides--;
  }

  async #attempt(step: Step): Promise<void> {
    const { recorder } = this.process;
    const { resource, waitMs } = step;
    const careful = this.plan.quarantine || undefined;
    const want = recorder.begin('want', { resource: qualify('sim', resource), careful });
    const { giveUpMs, maxHoldMs } = step;
    const options: AcquireOptions = {
      fences: [this.fence],
      ...(step.kind !== 'try' && { wait: waitMs }),
      ...(step.kind === 'tick' && { tick: this.#tick() }),
      ...(maxHoldMs > 0 && { maxHold: maxHoldMs }),
      ...(giveUpMs > 0 && { signal: this.#signalAfter(giveUpMs) }),
      ...this.#scene.bug.acquire,
    };
    await this.#tolerant(() => this.#take(step, options, want));
    want.end('fail');
  }

  async #take(step: Step, options: AcquireOptions, want: Recording): Promise<void> {
    const { recorder } = this.process;
    const { kind, resource } = step;
    const work = async (lease: Lease): Promise<void> => {
      const { grant, leaseId, fencingToken, tick } = lease;
      want.end('ok', { leaseId, fencingToken, maxHoldMs: options.maxHold === undefined ? undefined : step.maxHoldMs });
      if (tick !== null) recorder.line('run', 'ok', { ...grant, job: JOB, tickAt: tick.at.getTime(), retries: 0 });
      await this.#work(lease, kind === 'hand-over' ? { ...step, writes: 1 } : step);
      if (kind !== 'hand-over') return;
      const ticket = await lease.handOver();
      recorder.line('handed-over', 'ok', { ...grant });
      this.#scene.handOn(this, ticket, step);
    };
    if (kind === 'acquire' || kind === 'try') {
      const result =
        kind === 'try'
          ? await this.manager.tryAcquire(resource, options)
          : { acquired: true as const, lease: await this.manager.acquire(resource, options) };
      if (result.acquired) await work(result.lease).finally(() => result.lease.release());
    } else await this.manager.run(resource, options, (lease) => this.#run(lease, work));
  }

  /** The body of a run, from its beginning until it has settled. */
  async #run(lease: Lease, work: (lease: Lease) => Promise<void>): Promise<void> {
    const body = this.process.recorder.begin('body', { ...lease.grant });
    const settled = work(lease).finally(() => body.end('ok'));
    await (this.#scene.bug.body?.(settled, lease) ?? settled);
  }

  /** What a schedule would name now, for everybody: a tick comes each ttl. */
  #tick(): NonNullable<AcquireOptions['tick']> {
    const { ttlMs } = this.#scene.plan;
    const at = START_MS + Math.floor(this.process.nowUs / 1000 / ttlMs) * ttlMs;
    return { job: JOB, at, startingDeadline: '10m', maxAhead: '10m' };
  }

  #signalAfter(ms: number): AbortSignal {
    const controller = new AbortController();
    this.process.setTimer(ms, () => controller.abort());
    return controller.signal;
  }

  /** Our errors are what this is about; others are not. */
  async #tolerant(work: () => Promise<unknown>): Promise<void> {
    try {
      await work();
    } catch (error) {
      if (LeaseholdError.of(error) !== undefined) return;
      this.#scene.world.problems.push(`${this.process.name}: ${String(error)}\n${(error as Error).stack ?? ''}`);
    }
  }

  /** Reads, thinks, and writes by what it has read. A write without an answer is the end of it. */
  async #work(lease: Lease, step: Step): Promise<void> {
    const { process, fence } = this;
    const { signal, grant } = lease;
    const goesOn = (): boolean => step.isStubborn || !signal.aborted;
    for (let write = 0; write < step.writes && goesOn(); write++) {
      const reading = process.recorder.begin('read', { resource: grant.resource, leaseId: grant.leaseId });
      let version: number;
      try {
        version = await this.remoteFence.version(grant.resource);
        reading.end('ok', { version });
      } catch (error) {
        reading.end('info');
        throw error;
      }
      await this.#pause(step.thinkMs, signal, step.isStubborn);
      if (!goesOn()) break;
      const writeId = `${process.name}-w${++this.#writes}`;
      const whose = step.isDelegated ? grant : ((await this.#scene.bug.holder?.(lease, this.manager)) ?? lease);
      await fence.write(whose, this.#bodyOf(grant.resource, writeId, step.commitMs), { writeId, version });
      await this.#pause(step.holdMs, signal, step.isStubborn);
    }
  }

  #bodyOf(resource: string, writeId: string, commitMs: number): WriteBody {
    const { world } = this.#scene;
    const body = async (tx: MemoryTx): Promise<{ before: number; after: number }> => {
      const before = (tx.get(resource) as number | undefined) ?? 0;
      if (commitMs > 0) {
        await new Promise<void>((resolve) => {
          world.at(world.nowUs + commitMs * 1000, undefined, resolve);
        });
      }
      tx.set(resource, before + 1);
      return { before, after: before + 1 };
    };
    return Object.assign(body, { writeId });
  }

  #pause(ms: number, signal: AbortSignal, isStubborn: boolean): Promise<void> {
    if (ms <= 0 || (signal.aborted && !isStubborn)) return Promise.resolve();
    if (isStubborn) return this.process.wait(ms);
    return new Promise((resolve) => {
      const timer = this.process.setTimer(ms, () => {
        stop();
        resolve();
      });
      const stop = onAbort(signal, () => {
        timer.clear();
        resolve();
      });
    });
  }
}

/** When processes begin, by the time of the world. */
export const startMs = 1000;

const LAST: Omit<Step, 'resource' | 'waitMs'> = {
  ...{ id: 'last', kind: 'run', afterMs: 0, writes: 1, thinkMs: 1, holdMs: 0, commitMs: 0 },
  ...PLAINLY,
};

const JOB = 'nightly';

const silent = { debug() {}, info() {}, warn() {}, error() {} };
