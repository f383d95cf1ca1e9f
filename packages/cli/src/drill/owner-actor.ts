import { setTimeout as sleep } from 'node:timers/promises';
import { LeaseholdError, LeaseManager, type Grant, type Holding, type Lease } from '@leasehold/core';
import { redisStore } from '@leasehold/core/redis';
import { Recorder, recordStore, RecordingFence } from '@leasehold/core/testing/history';
import { sourceOf } from '../redis.ts';
import { newWriteId, openDrillFence, type OpenDrillFence } from './drill-fence.ts';
import type { FromOwner, OwnerSetup, ToOwner } from './messages.ts';
import { DRILL_PREFIX, DRILL_RETENTION } from './scratch.ts';
import { sharedMs } from './shared-clock.ts';
import { silent } from './silent.ts';

type Tell = (message: FromOwner) => void;

/** One owner of a drill: acquires, writes through its fence until the lease ends, and tells what happens to it. */
export class OwnerActor {
  readonly #setup: OwnerSetup;
  readonly #tell: Tell;
  readonly #recorder: Recorder;
  readonly #manager: LeaseManager;
  readonly #opened: OpenDrillFence;
  readonly #fence: RecordingFence<unknown>;
  readonly #finish = new AbortController();
  #lease: Lease | undefined;

  private constructor(setup: OwnerSetup, opened: OpenDrillFence, tell: Tell) {
    this.#setup = setup;
    this.#opened = opened;
    this.#tell = tell;
    this.#recorder = new Recorder({
      process: setup.process,
      now: sharedMs,
      write: (line) => tell({ type: 'line', line }),
    });
    const store = redisStore(sourceOf(setup.redis, setup.detours), { prefix: DRILL_PREFIX });
    this.#manager = new LeaseManager({
      ...setup.timing,
      store: recordStore(store, this.#recorder),
      ttl: setup.ttlMs,
      owner: { name: setup.process },
      logger: silent,
    });
    this.#recorder.listen(this.#manager);
    this.#fence = new RecordingFence(opened.fence, this.#recorder);
  }

  /** Resolves when store and fence have answered. Rejects with what keeps them from it. */
  static async open(setup: OwnerSetup, tell: Tell): Promise<OwnerActor> {
    const opened = await openDrillFence(setup.fence, setup.resource);
    const actor = new OwnerActor(setup, opened, tell);
    await Promise.all([
      actor.#manager.inspect(setup.resource),
      opened.fence.highest(`${DRILL_PREFIX}/${setup.resource}`),
    ]);
    return actor;
  }

  async hear(message: Exclude<ToOwner, { readonly type: 'set-up' }>): Promise<void> {
    switch (message.type) {
      case 'work':
        return this.#work();
      case 'finish':
        return this.#finish.abort();
      case 'guarded-write':
        return this.#answer(message.call, 0, await this.#write(this.#leased()));
      case 'late-write':
        return this.#answer(message.call, 0, await this.#write(this.#leased().grant));
      case 'step-clock': {
        const effect = stepWallClock(message.byMs);
        const atMs = sharedMs();
        return this.#answer(message.call, effect, await this.#write(this.#leased()), atMs);
      }
      case 'block': {
        const effect = block(message.forMs);
        const atMs = sharedMs();
        return this.#answer(message.call, effect, await this.#write(this.#leased()), atMs);
      }
    }
  }

  async #work(): Promise<void> {
    const { resource } = this.#setup;
    const want = this.#recorder.begin('want', { resource: `${DRILL_PREFIX}/${resource}` });
    try {
      await this.#manager.run(
        resource,
        { wait: Infinity, fences: [this.#fence], retention: DRILL_RETENTION },
        async (lease) => {
          want.end('ok');
          this.#tell({ type: 'acquired', atMs: sharedMs(), grant: lease.grant });
          await this.#section(lease);
        },
      );
      this.#ended('released');
    } catch (error) {
      want.end('fail', { outcome: codeOf(error) });
      this.#ended(codeOf(error));
    }
  }

  /** The guarded section: writes until it is to end. */
  async #section(lease: Lease): Promise<void> {
    this.#lease = lease;
    const { signal } = lease;
    const tellAbort = (): void => {
      const { reason } = signal.reason as { readonly reason?: string };
      this.#tell({ type: 'aborted', atMs: sharedMs(), reason: reason ?? '' });
    };
    if (signal.aborted) tellAbort();
    else signal.addEventListener('abort', tellAbort, { once: true });
    const end = AbortSignal.any([signal, this.#finish.signal]);
    while (!end.aborted) {
      await this.#write(lease);
      await sleep(this.#setup.writeEveryMs, undefined, { signal: end }).catch(() => {});
    }
    signal.removeEventListener('abort', tellAbort);
  }

  /** `written`, or the code of the error. */
  async #write(holder: Grant | (Holding & Lease)): Promise<string> {
    const { fencingToken, leaseId } = 'grant' in holder ? holder.grant : holder;
    const writeId = newWriteId();
    try {
      await this.#fence.write(holder, this.#opened.body({ writeId, fencingToken, leaseId }), { writeId });
      return 'written';
    } catch (error) {
      return codeOf(error);
    }
  }

  #leased(): Lease {
    if (this.#lease === undefined) throw new Error('it has no lease yet');
    return this.#lease;
  }

  #answer(call: number, effect: number, outcome: string, atMs = sharedMs()): void {
    this.#tell({ type: 'answer', call, atMs, outcome, effect });
  }

  #ended(outcome: string): void {
    this.#tell({ type: 'ended', atMs: sharedMs(), outcome });
  }
}

function codeOf(error: unknown): string {
  return LeaseholdError.of(error)?.code ?? (error instanceof Error ? error.message : String(error));
}

/** As NTP or a person does it: from now on everything in this process reads a later time of day. Returns by how much. */
function stepWallClock(byMs: number): number {
  const readWall = Date.now.bind(Date);
  const before = readWall();
  Date.now = () => readWall() + byMs;
  return Date.now() - before;
}

/** Returns for how long, in milliseconds. */
function block(forMs: number): number {
  const fromMs = sharedMs();
  while (sharedMs() - fromMs < forMs);
  return sharedMs() - fromMs;
}
