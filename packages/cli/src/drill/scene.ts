import { setTimeout as sleep } from 'node:timers/promises';
import type { Grant, LeaseManager } from '@leasehold/core';
import { Recorder, type HistoryLine } from '@leasehold/core/testing/history';
import { LeaseholdError } from '@leasehold/core';
import { RecordingFence } from '@leasehold/core/testing/history';
import type { RedisSettings } from '../config/settings.ts';
import type { Cleaner } from './cleaner.ts';
import { newWriteId, openDrillFence, type OpenDrillFence } from './drill-fence.ts';
import { Gate } from './gate.ts';
import type { DrillFence, DrillTiming } from './messages.ts';
import { OwnerProcess } from './owner-process.ts';
import { qualifiedScratch } from './scratch.ts';
import { sharedMs } from './shared-clock.ts';

/** What all proofs of a drill share. */
export interface Stage {
  readonly redis: RedisSettings;
  readonly fence: DrillFence;
  readonly ttlMs: number;
  /** From one extension to the next. */
  readonly refreshMs: number;
  readonly timing: DrillTiming;
  /** Of the drill itself, on the scratch namespace. */
  readonly leases: LeaseManager;
  readonly cleaner: Cleaner;
  readonly signal: AbortSignal;
  /** Told when a fault begins. */
  readonly onFault: (resource: string, nemesis: string) => void;
}

/** Something that a proof has to show. */
export interface Expectation {
  readonly what: string;
  readonly isMet: boolean;
  /** What was seen. */
  readonly seen: string;
}

export interface Measure {
  readonly ms: number;
  readonly boundMs: number;
}

/** Beyond what is to be proven, for a machine that is busy. */
const PATIENCE_MS = 15_000;
/** What a wake-up and a round trip may take on top of a lease. */
const SLACK_MS = 250;
/** Of the question whose answer says that the lease is over. */
const ROUND_TRIP_MS = 50;

/** Two owner processes, their scratch resource and its fence: what one proof plays with. */
export class Scene implements AsyncDisposable {
  readonly resource: string;
  readonly owner: OwnerProcess;
  readonly successor: OwnerProcess;
  readonly stage: Stage;
  readonly expectations: Expectation[] = [];
  abort: Measure | undefined;
  takeover: Measure | undefined;
  readonly #gate: Gate | undefined;
  readonly #opened: OpenDrillFence;
  readonly #fence: RecordingFence<unknown>;
  readonly #recorder: Recorder;
  readonly #lines: HistoryLine[] = [];

  private constructor(stage: Stage, resource: string, gate: Gate | undefined, opened: OpenDrillFence) {
    this.stage = stage;
    this.resource = resource;
    this.#gate = gate;
    this.#opened = opened;
    this.#recorder = new Recorder({ process: 'drill', now: sharedMs, write: (line) => void this.#lines.push(line) });
    this.#fence = new RecordingFence(opened.fence, this.#recorder);
    const { redis, ttlMs, timing, fence, signal } = stage;
    const common = { resource, ttlMs, timing, fence, writeEveryMs: Math.max(5, ttlMs / 40) };
    const gated = { redis: gate?.redis ?? redis, detours: gate?.detours };
    this.owner = new OwnerProcess({ ...common, process: 'owner', ...gated }, signal);
    this.successor = new OwnerProcess({ ...common, process: 'successor', redis, detours: undefined }, signal);
  }

  /** Resolves when both processes have reached store and fence. */
  static async open(stage: Stage, resource: string, isGated: boolean): Promise<Scene> {
    stage.cleaner.expect(resource);
    const gate = isGated ? await Gate.open(stage.redis) : undefined;
    const scene = new Scene(stage, resource, gate, await openDrillFence(stage.fence, resource));
    try {
      await Promise.all([
        ...[scene.owner, scene.successor].map((process) => process.ready(2 * PATIENCE_MS)),
        // Connected, so that a refusal is not taken for an answer that was lost on the way.
        scene.#opened.fence.highest(qualifiedScratch(resource)),
      ]);
    } catch (error) {
      await scene[Symbol.asyncDispose]();
      throw error;
    }
    return scene;
  }

  get ttlMs(): number {
    return this.stage.ttlMs;
  }

  /** How long to wait for what must come. */
  get patienceMs(): number {
    return 3 * this.ttlMs + PATIENCE_MS;
  }

  /** The owner has its lease and writes; the successor waits for it, unless it comes later. */
  async begin({ isSuccessorWaiting = true } = {}): Promise<Grant> {
    this.owner.work();
    const { grant } = await this.owner.acquired(this.patienceMs);
    await this.owner.writes(2, this.patienceMs);
    if (isSuccessorWaiting) {
      this.successor.work();
      await this.successor.waits(this.patienceMs);
    }
    return grant;
  }

  /** The successor has taken over, not later than a lease after `sinceMs`, with a larger token, and writes. */
  async takesOver(old: Grant, sinceMs: number): Promise<Grant> {
    const { atMs, grant } = await this.successor.acquired(this.patienceMs);
    this.takeover = { ms: atMs - sinceMs, boundMs: this.ttlMs + SLACK_MS };
    this.within('the successor takes over within a lease', this.takeover);
    this.expect(
      'the token of the successor is larger',
      grant.fencingToken > old.fencingToken,
      `${old.fencingToken}, then ${grant.fencingToken}`,
    );
    await this.successor.writes(2, this.patienceMs);
    return grant;
  }

  /** The owner is told that its lease is over, not later than `boundMs` after `sinceMs`. */
  async aborts(sinceMs: number, boundMs: number, what: string): Promise<void> {
    const { atMs } = await this.owner.aborted(this.patienceMs);
    this.abort = { ms: atMs - sinceMs, boundMs: boundMs + ROUND_TRIP_MS };
    this.within(`the guarded section is aborted within ${what}`, this.abort);
  }

  /** What an owner that goes on regardless writes is refused, here and by the fence; the successor's writes go on. */
  async isShutOut(old: Grant): Promise<void> {
    const guarded = await this.owner.write('guarded-write', this.patienceMs);
    this.refuses('a write through the lease is refused by its owner', guarded.outcome, 'LEASE_LOST');
    const late = await this.owner.write('late-write', this.patienceMs);
    this.refuses('the fence refuses a late write with the old token', late.outcome, 'STALE_TOKEN');
    await this.settles(old);
  }

  /** A late packet of an owner that is dead. */
  async ghostIsRefused(old: Grant): Promise<void> {
    this.refuses('the fence refuses a late write of the dead owner', await this.lateWrite(old), 'STALE_TOKEN');
    await this.settles(old);
  }

  /** By its grant alone, as a packet that was on its way. */
  async lateWrite(grant: Grant): Promise<string> {
    const writeId = newWriteId();
    const { fencingToken, leaseId } = grant;
    try {
      await this.#fence.write(grant, this.#opened.body({ writeId, fencingToken, leaseId }), { writeId });
      return 'written';
    } catch (error) {
      return LeaseholdError.of(error)?.code ?? String(error);
    }
  }

  /** The successor goes on undisturbed, and the protected resource has recorded its token. */
  async settles(old: Grant): Promise<void> {
    await this.successor.writes(2, this.patienceMs);
    const highest = await this.#opened.fence.highest(qualifiedScratch(this.resource));
    const { grant } = this.successor;
    this.expect(
      'the fence has recorded the newer token',
      grant !== undefined && highest?.fencingToken === grant.fencingToken && highest.leaseId === grant.leaseId,
      `${old.fencingToken} was ${old.leaseId.slice(0, 6)}…, highest is ${highest?.fencingToken ?? 'none'}`,
    );
    await this.successor.finish(this.patienceMs);
  }

  /** The instant that a fault begins. `end` says how much effect it had. */
  strike(nemesis: string): { readonly atMs: number; readonly end: (effect: number) => void } {
    this.stage.onFault(this.resource, nemesis);
    const recording = this.#recorder.begin('nemesis', { nemesis, target: 'owner' });
    return { atMs: sharedMs(), end: (effect) => recording.end('ok', { nemesis, target: 'owner', effect }) };
  }

  /** SIGKILL; resolves when the owner is gone. */
  async killOwner(): Promise<number> {
    const fault = this.strike('kill');
    const signal = await this.owner.kill();
    this.#lines.push({ atMs: sharedMs(), seq: 1e9, process: 'owner', act: 'died', phase: 'ok', outcome: 'killed' });
    fault.end(signal === 'SIGKILL' ? 1 : 0);
    return fault.atMs;
  }

  /** As a person does it: the owner is asked to let go. */
  async revoke({ leaseId, fencingToken, resource }: Grant): Promise<boolean> {
    const recording = this.#recorder.begin('revoke', { resource, leaseId, fencingToken });
    const { outcome } = await this.stage.leases.revoke(this.resource, { leaseId, reason: 'drill' });
    const isRevoked = outcome === 'revoked';
    recording.end(isRevoked ? 'ok' : 'fail', { outcome });
    return isRevoked;
  }

  /** The name of what is drilled. */
  get fence(): string {
    return this.#opened.fence.name;
  }

  /** Between owner and store. Throws for a scene without one. */
  get gate(): Gate {
    if (this.#gate === undefined) throw new Error('nothing is between this owner and its store');
    return this.#gate;
  }

  /** Until so much has passed since an instant. */
  async passes(sinceMs: number, ms: number): Promise<void> {
    await sleep(Math.max(0, sinceMs + ms - sharedMs()), undefined, { signal: this.stage.signal });
  }

  expect(what: string, isMet: boolean, seen: string): void {
    this.expectations.push({ what, isMet, seen });
  }

  refuses(what: string, outcome: string, wanted: string): void {
    this.expect(what, outcome === wanted, outcome);
  }

  within(what: string, { ms, boundMs }: Measure): void {
    this.expect(what, ms <= boundMs, `${Math.round(ms)} of ${Math.round(boundMs)} ms`);
  }

  /** What everybody has said so far. */
  get lines(): readonly HistoryLine[] {
    return [...this.owner.lines, ...this.successor.lines, ...this.#lines];
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all([this.owner.kill(), this.successor.kill(), this.#gate?.[Symbol.asyncDispose]()]);
    await this.#opened.close();
  }
}
