import type { AcquireSettings } from '../options.ts';
import type { Outcome } from '../store/store.ts';
import { Wheel, type Slotted } from '../wheel.ts';
import type { Context } from './context.ts';
import type { Tenure } from './tenure.ts';

const GRAIN_MS = 4;

interface Kept extends Slotted {
  readonly tenure: Tenure;
}

/**
 * Keeps leases that were released, for the next acquisition of their resource in this process. What it keeps is not
 * extended; it is given back when somebody else asks, when its time is over, and when the manager closes.
 */
export class Lingerer {
  readonly #context: Context;
  readonly #giveBack: (tenure: Tenure) => Promise<unknown>;
  /** By resource, what is on its way back. */
  readonly #leaving = new Map<string, Promise<unknown>>();
  readonly #kept = new Map<string, Kept>();
  readonly #wheel: Wheel<Kept>;
  readonly #wanted: (leaseId: string) => void;

  /** `giveBack` releases at the store, and resolves when that is confirmed or given up. It must not throw or reject. */
  constructor(context: Context, giveBack: (tenure: Tenure) => Promise<unknown>) {
    this.#context = context;
    this.#giveBack = giveBack;
    this.#wheel = new Wheel<Kept>(context.clock, GRAIN_MS, () => {
      for (const { tenure } of this.#wheel.takeDue()) this.#end(tenure);
    });
    this.#wanted = (leaseId) => this.#want(leaseId);
    context.engine.wanted.add(this.#wanted);
  }

  /** Whether the lease, about which there is no doubt at all, stays here in place of being released. */
  keep(tenure: Tenure, outcome: Outcome): boolean {
    const { spare, resource } = tenure;
    const { clock, settings, closing } = this.#context;
    if (spare === undefined || spare.tokens === 0 || closing || outcome === 'not-started') return false;
    if (this.#kept.has(resource)) return false;
    const nowMs = clock.monotonicMs();
    spare.untilMs = Math.min(spare.untilMs, nowMs + settings.lingerMs);
    const dueMs = this.#dueMs(tenure);
    if (dueMs <= nowMs) return false;
    const kept: Kept = { slot: -1, tenure };
    this.#kept.set(resource, kept);
    this.#wheel.put(kept, dueMs);
    return true;
  }

  /** The last holder of a lease that is kept and fits, for whoever comes next. */
  take(resource: string, settings: AcquireSettings): Tenure | undefined {
    const kept = this.#kept.get(resource);
    if (kept === undefined) return undefined;
    const { tenure } = kept;
    this.#forget(kept);
    const { timing, retentionMs, tick } = settings;
    const fits = tick === undefined && timing.ttlMs === tenure.timing.ttlMs && retentionMs === tenure.retentionMs;
    // The timer may be late: the process may have been stopped.
    if (fits && tenure.trustedMs() > 0 && this.#context.clock.monotonicMs() < this.#dueMs(tenure)) return tenure;
    this.#return(tenure);
    return undefined;
  }

  /** A lease of this resource that is on its way back: who does not wait for its turn would be refused because of it. */
  leaving(resource: string): Promise<unknown> | undefined {
    return this.#leaving.get(resource);
  }

  /** Gives all back. */
  close(): void {
    this.#context.engine.wanted.delete(this.#wanted);
    this.#endAll();
  }

  /**
   * Gives all back. Resolves when the store has confirmed whatever was withdrawn or given back until now, or has not
   * answered for the time of a call.
   */
  async settle(): Promise<void> {
    const { engine, settings } = this.#context;
    this.#endAll();
    await engine.settler.flush(settings.timing.callTimeoutMs);
  }

  /** When it is to be given back. */
  #dueMs({ spare, refreshMs }: Tenure): number {
    return Math.min(spare?.untilMs ?? -Infinity, refreshMs);
  }

  #want(leaseId: string): void {
    for (const { tenure } of this.#kept.values()) if (tenure.grant.leaseId === leaseId) this.#end(tenure);
    const { asked, tenures } = this.#context;
    const early = asked.get(leaseId);
    if (early !== undefined) early.tokens = 0;
    for (const { spare, grant } of tenures) {
      if (spare !== undefined && grant.leaseId === leaseId) spare.tokens = 0;
    }
  }

  #endAll(): void {
    for (const { tenure } of this.#kept.values()) this.#end(tenure);
  }

  #end(tenure: Tenure): void {
    const kept = this.#kept.get(tenure.resource);
    if (kept?.tenure !== tenure) return;
    this.#forget(kept);
    this.#return(tenure);
  }

  #return(tenure: Tenure): void {
    const { resource } = tenure;
    const returned: Promise<unknown> = this.#giveBack(tenure).then(() => {
      if (this.#leaving.get(resource) === returned) this.#leaving.delete(resource);
    });
    this.#leaving.set(resource, returned);
  }

  #forget(kept: Kept): void {
    this.#kept.delete(kept.tenure.resource);
    this.#wheel.remove(kept);
  }
}
