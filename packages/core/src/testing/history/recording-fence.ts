import { FenceUnavailableError, LeaseholdError } from '../../errors.ts';
import { grantOf, type Fence, type Grant, type Holding } from '../../fence/fence.ts';
import type { About, Recorder, Recording } from './recorder.ts';

/** What a write is called, and the version of the data that it goes by. */
export interface WriteTag {
  readonly writeId: string;
  readonly version?: number | undefined;
}

/**
 * A fence with a line for each call. A write begins where the lease has just been found to be held, which the fence asks
 * right before it sends: a write that is not let out is none.
 */
export class RecordingFence<Tx> implements Fence<Tx> {
  readonly name: string;
  readonly enforcing: boolean;
  readonly #fence: Fence<Tx>;
  readonly #recorder: Recorder;
  #writes = 0;

  constructor(fence: Fence<Tx>, recorder: Recorder) {
    this.name = fence.name;
    this.enforcing = fence.enforcing;
    this.#fence = fence;
    this.#recorder = recorder;
  }

  async activate(grant: Grant | Holding): Promise<void> {
    const recording = this.#recorder.begin('activate', { ...grantOf(grant), fence: this.name });
    await settle(recording, this.#fence.activate(grant));
  }

  async write<T>(grant: Grant | Holding, body: (tx: Tx) => T | Promise<T>, tag?: WriteTag): Promise<T> {
    const about = {
      ...grantOf(grant),
      fence: this.name,
      writeId: `${this.#recorder.process}-${++this.#writes}`,
      ...tag,
    };
    if (!('holding' in grant)) {
      const recording = this.#recorder.begin('write', { ...about, delegated: true });
      return settle(recording, this.#fence.write(grant, body));
    }
    let recording: Recording | undefined;
    const watched: Holding = {
      grant: grant.grant,
      assertHeld: () => {
        const checkedMs = this.#recorder.now();
        grant.assertHeld();
        recording ??= this.#recorder.begin('write', { ...about, checkedMs });
      },
      holding: {
        // The lease knows this fence, not the one behind it.
        mayWrite: () => grant.holding.mayWrite(this),
        refused: (error) => grant.holding.refused(error),
      },
    };
    try {
      const value = await this.#fence.write(watched, body);
      recording?.end('ok');
      return value;
    } catch (error) {
      recording?.end(...outcomeOf(error));
      throw error;
    }
  }

  async seal(resource: string, fencingToken: number): Promise<void> {
    await settle(
      this.#recorder.begin('seal', { resource, fencingToken, fence: this.name }),
      this.#fence.seal(resource, fencingToken),
    );
  }

  highest(resource: string): Promise<{ readonly fencingToken: number; readonly leaseId: string | null } | null> {
    return this.#fence.highest(resource);
  }
}

async function settle<T>(recording: Recording, work: Promise<T>): Promise<T> {
  try {
    const value = await work;
    recording.end('ok');
    return value;
  } catch (error) {
    recording.end(...outcomeOf(error));
    throw error;
  }
}

/** Only a fence that could not be asked may have done it all the same. */
function outcomeOf(error: unknown): ['fail' | 'info', About] {
  const own = LeaseholdError.of(error);
  const isUnknown = own instanceof FenceUnavailableError && own.outcome !== 'not-written';
  return [isUnknown ? 'info' : 'fail', { outcome: own?.code ?? 'body' }];
}
