import { diagnose } from '../../src/diagnosis/diagnose.ts';
import { forceRelease } from '../../src/diagnosis/force-release.ts';
import type { OwnerProbe } from '../../src/diagnosis/probe.ts';
import { LeaseholdError } from '../../src/errors.ts';
import { qualify } from '../../src/names.ts';
import type { HistoryLine } from '../../src/testing/history/history.ts';
import { Recorder } from '../../src/testing/history/recorder.ts';
import type { Actor, Scene } from './actors.ts';
import type { Link } from './network.ts';
import { FAULT_KINDS, type FaultPlan } from './fault-plan.ts';

/** What faults need of a run: its processes now, and a way to begin another life of one. */
export interface Crew {
  readonly scene: Scene;
  readonly operator: Actor;
  /** Another one, who only looks. */
  readonly watcher: Actor;
  alive(id: string): Actor | undefined;
  restart(id: string): void;
  /** From then on nothing is done to anybody, by the time of the world. */
  readonly calmMs: number;
  readonly actors: () => readonly Actor[];
}

/** Lets one fault happen. It ends by itself, and writes down when it began and ended and what it met. */
export class Faults {
  readonly #crew: Crew;
  readonly #recorder: Recorder;
  /** What ends those that go on. */
  readonly #going = new Set<() => void>();

  constructor(crew: Crew) {
    this.#crew = crew;
    const { world } = crew.scene;
    this.#recorder = new Recorder({
      process: 'world',
      now: () => world.nowMs,
      write: (line) => void world.lines.push(line),
    });
  }

  strike(fault: FaultPlan): void {
    const { scene } = this.#crew;
    const { world, store } = scene;
    const { kind, forMs, choice, resource } = fault;
    const target = this.#crew.alive(fault.target);
    switch (kind) {
      case 'pause':
        return target && this.#pause(target, fault);
      case 'sleep':
        return target && this.#sleep(target, fault);
      case 'freeze':
        return target && this.#freeze(target, fault);
      case 'kill':
        return target && this.#kill(target, fault);
      case 'wall-step': {
        if (target === undefined) return;
        target.process.stepWall((choice % 2 === 0 ? 1 : -1) * (choice < 20 ? 100 : 4000));
        return this.#instant('wall-step', target.process.name);
      }
      case 'partition':
        return target && this.#cut(target.store.link, target, fault, kind);
      case 'fence-partition':
        return target && this.#cut(target.remoteFence.link, target, fault, kind);
      case 'noise':
        return target && this.#disturb(target.store.link, target, fault, kind);
      case 'slow':
        return target && this.#slow(target, fault);
      case 'fence-noise':
        // Nothing comes twice there: a resource does not promise to know a repeated request.
        return target && this.#disturb(target.remoteFence.link, target, fault, kind);
      case 'reset': {
        if (target === undefined) return;
        return this.#reset(target, fault);
      }
      case 'store-stall':
        return this.#stall(fault);
      case 'store-clock': {
        const ms = choice % 2 === 0 ? forMs : -forMs;
        store.clock.stepWall(ms * (choice < 20 ? 10 : 1));
        this.#instant('store-clock');
        if (ms < 0) this.#instant('store-clock-back');
        return;
      }
      case 'data-loss':
        store.memory.flush(choice % 2 === 0 ? undefined : resource);
        return this.#lose(choice % 2 === 0 ? undefined : resource);
      case 'restart': {
        const persistent = choice % 2 === 0;
        store.memory.restart({ persistent });
        for (const actor of this.#crew.actors()) actor.store.reset((forMs * 1000) / 8, forMs);
        this.#lasting('restart', undefined, forMs / 8, () => 1);
        if (!persistent) this.#lose();
        return;
      }
      case 'revoke':
        return this.#operate(this.#crew.operator, (operator) =>
          choice % 8 === 7 ? this.#seal(operator, resource) : this.#revoke(operator, resource),
        );
      case 'diagnose':
        return this.#operate(this.#crew.watcher, (watcher) => this.#diagnose(watcher, resource));
      case 'force':
        return this.#operate(this.#crew.operator, (operator) => this.#force(operator, resource));
      case 'unsafe-force':
        return this.#operate(this.#crew.operator, (operator) => this.#forceAlive(operator, resource));
    }
    world.problems.push(`there is no fault ${String(kind)}`);
  }

  #pause({ process }: Actor, { forMs, choice, place }: FaultPlan): void {
    const at = place === 'in a release' ? undefined : place;
    process.stopAfter(1 + choice, at, forMs * 1000, (fromUs) => {
      this.#struck('pause');
      this.#spanFrom(fromUs, 'pause', process.name, forMs);
    });
  }

  #sleep({ process }: Actor, { forMs }: FaultPlan): void {
    const fromUs = process.nowUs;
    process.sleep(forMs * 1000);
    this.#struck('sleep');
    this.#spanFrom(fromUs, 'pause', process.name, forMs);
  }

  #freeze({ process }: Actor, { forMs }: FaultPlan): void {
    const fromUs = process.nowUs;
    process.freeze(forMs * 1000);
    this.#struck('freeze');
    this.#spanFrom(fromUs, 'frozen-clocks', process.name, forMs);
  }

  #kill(target: Actor, { forMs, place, ...fault }: FaultPlan): void {
    const { world } = this.#crew.scene;
    if (place !== undefined) {
      target.store.onRelease(() => {
        if (target.process.isAlive && !target.isDone && world.nowMs < this.#crew.calmMs)
          this.#kill(target, { ...fault, forMs });
      });
      return;
    }
    target.kill();
    this.#instant('kill', target.process.name);
    world.at(world.nowUs + forMs * 1000, undefined, () => this.#crew.restart(target.plan.id));
  }

  /** A connection that hangs for a while before it breaks, so that what was sent in the meantime is on the old one. */
  #reset(target: Actor, { forMs, choice }: FaultPlan): void {
    const { world, plan } = this.#crew.scene;
    const hangsMs = choice % 3 === 0 ? 0 : forMs / 2;
    const downMs = choice < 30 ? 1 : forMs / 4;
    if (hangsMs > 0) target.store.link.set('there', 'held');
    world.at(world.nowUs + hangsMs * 1000, undefined, () => target.store.reset(downMs * 1000, 2 * plan.ttlMs));
    // Until the last stray request has come.
    this.#lasting('reset', target.process.name, hangsMs + Math.max(downMs, 2 * plan.ttlMs), () => 1);
  }

  #cut(link: Link, { process }: Actor, { choice, forMs }: FaultPlan, kind: string): void {
    const passage = choice % 2 === 0 ? 'lost' : 'held';
    if (choice % 3 !== 1) link.set('there', passage);
    if (choice % 3 !== 2) link.set('back', passage);
    const before = link.hits;
    this.#lasting(kind, process.name, forMs, () => {
      link.heal();
      return link.hits - before;
    });
  }

  #disturb(link: Link, { process }: Actor, { choice, forMs }: FaultPlan, kind: string): void {
    const doubled = kind === 'noise' ? 150 : 0;
    const before = link.hits;
    link.noise = { lost: choice % 2 === 0 ? 150 : 20, doubled, astray: 250, lateMs: 20 + (choice % 5) * 200 };
    if (doubled > 0) this.#instant('duplication', process.name);
    this.#lasting(kind, process.name, forMs, () => {
      link.heal();
      return link.hits - before;
    });
  }

  /** So slow that calls are still answered in time, most of them. */
  #slow({ store, process }: Actor, { choice, forMs }: FaultPlan): void {
    const { link } = store;
    const before = link.hits;
    link.slowUs = (1 + choice) * 2000 * (this.#crew.scene.plan.ttlMs / 1000);
    this.#lasting('slow', process.name, forMs, () => {
      link.slowUs = 0;
      return link.hits - before;
    });
  }

  #stall({ forMs }: FaultPlan): void {
    const { store } = this.#crew.scene;
    const before = store.stalled;
    store.stall(forMs * 1000);
    this.#lasting('store-stall', undefined, forMs, () => store.stalled - before);
  }

  /** It had an effect. */
  #struck(nemesis: string): void {
    const kind = FAULT_KINDS.find((each) => each === nemesis);
    if (kind !== undefined) this.#crew.scene.world.struck.add(kind);
  }

  #instant(nemesis: string, target?: string): void {
    this.#struck(nemesis);
    this.#recorder.begin('nemesis', { nemesis, target }).end('ok', { nemesis, target, effect: 1 });
  }

  /** Of all resources, or of one. */
  #lose(resource?: string): void {
    this.#struck('data-loss');
    const about = resource === undefined ? { outcome: 'all' } : { resource: qualify('sim', resource) };
    this.#recorder.begin('nemesis', { nemesis: 'data-loss', ...about }).end('ok', { nemesis: 'data-loss', effect: 1 });
  }

  #lasting(nemesis: string, target: string | undefined, forMs: number, end: () => number): void {
    const { world } = this.#crew.scene;
    const recording = this.#recorder.begin('nemesis', { nemesis, target });
    const begin = world.lines.at(-1);
    const over = (): void => {
      if (!this.#going.delete(over)) return;
      const effect = end();
      if (effect > 0) {
        this.#struck(nemesis);
        recording.end('ok', { nemesis, target, effect });
        // What met nobody was no fault.
      } else world.lines.splice(world.lines.indexOf(begin as HistoryLine), 1);
    };
    this.#going.add(over);
    world.at(world.nowUs + forMs * 1000, undefined, over);
  }

  /** The run is over, and what still goes on is, too. */
  end(): void {
    for (const over of this.#going) over();
  }

  /** Of a process that is ahead of the world's time: when it was stopped lies before it by nothing, but after now. */
  #spanFrom(fromUs: number, nemesis: string, target: string, forMs: number): void {
    const { world } = this.#crew.scene;
    world.at(fromUs, undefined, () => this.#lasting(nemesis, target, forMs, () => forMs));
  }

  /** The operator's own errors are answers, too. */
  #operate(operator: Actor, work: (operator: Actor) => Promise<unknown>): void {
    const { world } = this.#crew.scene;
    world.at(world.nowUs, operator.process, () => {
      work(operator).catch((error: unknown) => {
        if (LeaseholdError.of(error) === undefined) world.problems.push(`the operator failed: ${String(error)}`);
      });
    });
  }

  async #revoke({ manager }: Actor, resource: string): Promise<void> {
    await manager.revoke(resource, { reason: 'simulated' });
    this.#struck('revoke');
  }

  /** Shuts out the owner at the fence, and whoever was before it: by its own token. */
  async #seal({ manager, fence }: Actor, resource: string): Promise<void> {
    const lease = await manager.inspect(resource);
    if (lease?.state === 'held') await fence.seal(qualify('sim', resource), lease.fencingToken);
  }

  async #diagnose(watcher: Actor, resource: string): Promise<void> {
    const recording = watcher.process.recorder.begin('diagnose', { resource: qualify('sim', resource) });
    try {
      const look = this.#crew.scene.bug.diagnose ?? diagnose;
      const { verdict, lease } = await look(watcher.manager, resource, {
        probes: [this.#probe()],
        fences: [watcher.fence],
      });
      recording.end('ok', { outcome: verdict.code, leaseId: lease?.leaseId });
      this.#struck('diagnose');
    } catch (error) {
      recording.end('fail');
      throw error;
    }
  }

  async #force({ manager, fence, process }: Actor, resource: string): Promise<void> {
    const lease = await manager.inspect(resource);
    if (lease === null || lease.state === 'free') return;
    const { leaseId } = lease;
    if (this.#crew.scene.bug.forcesUnsealed === true) {
      const { store, call } = manager.ground;
      const { fencingToken, extensions } = lease;
      const found = { resource, leaseId, fencingToken, extensions, elapsedMs: 0, floor: 0 };
      await store.forceRelease({ ...found, operator: 'op', reason: 'simulated' }, call);
      return;
    }
    const probes = [this.#probe()];
    const release = forceRelease(manager, resource, { leaseId, reason: 'simulated', probes, fences: [fence] });
    this.#crew.scene.witness?.forces(process.name, release);
    if ((await release).outcome === 'released') this.#struck('force');
  }

  /** What an operator can do past all that would stop him: the lease of an owner that lives, unsealed. */
  async #forceAlive({ manager }: Actor, resource: string): Promise<void> {
    const { store, call } = manager.ground;
    const record = await store.read(resource, call);
    if (record === null || record.state === 'free') return;
    let isReleased = false;
    this.#lasting('unsafe-force', undefined, 1000, () => Number(isReleased));
    const { leaseId, fencingToken, extensions } = record;
    const request = { resource, leaseId, fencingToken, extensions, elapsedMs: null, floor: 0 };
    const reply = await store.forceRelease({ ...request, operator: 'op', reason: 'simulated' }, call);
    isReleased = reply.kind === 'released';
  }

  /** Knows who lives, and whether they can run. */
  #probe(): OwnerProbe {
    const crew = this.#crew;
    return {
      name: 'sim',
      probe: async ({ name }) => {
        const actor = crew.actors().find(({ process }) => process.name === name);
        const isStopped = actor !== undefined && actor.process.busyUntilUs > crew.scene.world.nowUs;
        const state = actor?.process.isAlive !== true ? 'gone' : isStopped ? 'stopped' : 'alive';
        return { state, probe: 'sim', detail: `${name} is ${state}`, caveat: '', byHand: [] };
      },
    };
  }
}
