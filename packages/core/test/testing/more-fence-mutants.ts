import { FenceUnavailableError } from '../../src/errors.ts';
import { grantOf, type Grant, type Holding } from '../../src/fence/fence.ts';
import type { MemoryTx } from '../../src/fence/memory.ts';
import { yieldOnce } from '../../src/testing/unique.ts';
import type { FenceMutant } from './fence-mutants.ts';
import { PlainFence, type Mark } from './plain-fence.ts';

const never = new Promise<never>(() => {});

/** Check and data in one step, and the lease. */
const atomicity: readonly FenceMutant[] = [
  {
    does: 'activates nothing',
    foundBy: 'owners that depose one another lose no update',
    fence: class extends PlainFence {
      override async activate(grant: Grant | Holding): Promise<void> {
        this.asked(grant);
      }
    },
  },
  {
    does: 'asks its own memory, not the resource',
    foundBy: 'two fences before the same data are one',
    fence: class extends PlainFence {
      #own = new Map<string, Mark>();
      override mark(resource: string): Mark | null {
        return this.#own.get(resource) ?? null;
      }
      override put(resource: string, mark: Mark): void {
        this.#own.set(resource, mark);
      }
    },
  },
  {
    does: 'checks before the body, and not when it writes',
    foundBy: 'nothing of an earlier grant is written after a later one was activated, not even by a write under way',
    fence: class extends PlainFence {
      override store(id: number, _: Grant, __: Grant | Holding, changes: ReadonlyMap<string, unknown>): void {
        for (const [key, entry] of changes) this.ground.values.set(key, entry);
        this.ground.done.add(id);
      }
    },
  },
  {
    does: 'lets a write that has begun pass a seal',
    foundBy: 'a write under way that is sealed out writes nothing',
    fence: class extends PlainFence {
      #begun = new Set<string>();
      override async commit(...args: Parameters<PlainFence['commit']>): Promise<void> {
        this.#begun.add(args[0].leaseId);
        await yieldOnce();
        return super.commit(...args).finally(() => this.#begun.delete(args[0].leaseId));
      }
      override admits(highest: Mark | null, grant: Grant): boolean {
        return super.admits(highest, grant) || (highest?.leaseId === null && this.#begun.has(grant.leaseId));
      }
    },
  },
  {
    does: 'keeps the value of the body to itself',
    foundBy: 'write returns what its body returned',
    fence: class extends PlainFence {
      override async write<T>(grant: Grant | Holding, body: (tx: MemoryTx) => T | Promise<T>): Promise<T> {
        await super.write(grant, body);
        return undefined as T;
      }
    },
  },
  {
    does: 'writes what a failing body had written so far',
    foundBy: 'a body that throws writes nothing, and its own error comes out',
    fence: class extends PlainFence {
      override async run<T>(body: (tx: MemoryTx) => T | Promise<T>): Promise<T> {
        return body(this.ground.values);
      }
    },
  },
  {
    does: 'writes the first of several changes before it asks',
    foundBy: 'all of a write is written, or none',
    fence: class extends PlainFence {
      override async run<T>(body: (tx: MemoryTx) => T | Promise<T>, draft: MemoryTx): Promise<T> {
        let writes = 0;
        const set = (key: string, value: unknown): void => {
          draft.set(key, value);
          if (++writes === 2) this.ground.values.set(key, value);
        };
        return body({ get: (key) => draft.get(key), has: (key) => draft.has(key), set, delete: () => {} });
      }
      override async write<T>(grant: Grant | Holding, body: (tx: MemoryTx) => T | Promise<T>): Promise<T> {
        if (!this.admits(this.mark(grantOf(grant).resource), grantOf(grant))) await this.run(body, new Map());
        return super.write(grant, body);
      }
    },
  },
  {
    does: 'refuses a write while another of the same grant is under way',
    foundBy: 'writes of one grant at the same time all get in',
    fence: class extends PlainFence {
      #busy = false;
      override async write<T>(grant: Grant | Holding, body: (tx: MemoryTx) => T | Promise<T>): Promise<T> {
        if (this.#busy) throw this.unavailable(grantOf(grant), 'not-written');
        this.#busy = true;
        return super.write(grant, body).finally(() => (this.#busy = false));
      }
    },
  },
  {
    does: 'lets the writes of one grant run into one another',
    foundBy: 'bodies that read and write lose no update of their siblings',
    fence: class extends PlainFence {
      override async turn(): Promise<() => void> {
        return () => {};
      }
    },
  },
  {
    does: 'does not ask whether the lease is held',
    foundBy: 'a lease is asked whether it is held before anything is written',
    fence: class extends PlainFence {
      override askedToWrite(grant: Grant | Holding): Grant {
        return this.asked(grant);
      }
    },
  },
  {
    does: 'does not ask whether it was activated',
    foundBy: 'a lease that did not activate this fence does not write to it',
    fence: class extends PlainFence {
      override askedToWrite(grant: Grant | Holding): Grant {
        if ('assertHeld' in grant) grant.assertHeld();
        return this.asked(grant);
      }
    },
  },
  {
    does: 'keeps a refusal to itself',
    foundBy: 'a refusal is told to the lease',
    fence: class extends PlainFence {
      override refuse(asked: Grant, _: Grant | Holding, highest: Mark): unknown {
        return super.refuse(asked, asked, highest);
      }
    },
  },
];

/** Reads the highest, and lets others act before it decides. */
class Slow extends PlainFence {
  override async activate(grant: Grant | Holding): Promise<void> {
    const asked = this.asked(grant);
    const highest = this.mark(asked.resource);
    await yieldOnce();
    this.checkRange(asked.resource, asked.fencingToken);
    if (!this.admits(highest, asked) && highest !== null) throw this.refuse(asked, grant, highest);
    const { resource, fencingToken, leaseId } = asked;
    this.put(resource, { fencingToken, leaseId });
  }
}

/** Seals over what was the highest a moment ago. */
class SlowSeal extends PlainFence {
  override async sealOver(highest: Mark | null, resource: string, fencingToken: number): Promise<void> {
    await yieldOnce();
    await super.sealOver(highest, resource, fencingToken);
  }
}

/** Many at once. */
const crowds: readonly FenceMutant[] = [
  ...['', ', over two fences'].map((way) => ({
    does: 'reads the highest in one step and raises it in another',
    foundBy: `of two grants that are the first at the same time, the later one gets in${way}`,
    fence: Slow,
  })),
  ...['', ', over two fences'].map((way) => ({
    does: 'reads the highest in one step and seals in another',
    foundBy: `of a seal and an activation at the same time, the higher one holds in the end${way}`,
    fence: SlowSeal,
  })),
  {
    does: 'refuses a grant as stale because much is under way',
    foundBy: 'of many grants in random order, the accepted writes of each are one unbroken run',
    fence: class extends PlainFence {
      #writing = 0;
      override async run<T>(body: (tx: MemoryTx) => T | Promise<T>, draft: MemoryTx): Promise<T> {
        this.#writing++;
        return super.run(body, draft).finally(() => this.#writing--);
      }
      override async activate(grant: Grant | Holding): Promise<void> {
        const asked = this.asked(grant);
        const highest = this.mark(asked.resource);
        if (this.#writing > 0 && highest !== null) throw this.refuse(asked, grant, highest);
        return super.activate(grant);
      }
    },
  },
  {
    does: 'trusts what it read of the highest for as long as nobody tells it otherwise',
    foundBy: 'of many grants in random order, the accepted writes of each are one unbroken run, over two fences',
    fence: class extends PlainFence {
      #known: Mark | null = null;
      override admits(highest: Mark | null, grant: Grant): boolean {
        const known = this.#known;
        this.#known = super.admits(highest, grant) ? grant : highest;
        return known?.leaseId === grant.leaseId || super.admits(highest, grant);
      }
    },
  },
];

type Commit = Parameters<PlainFence['commit']>;

const ANSWER_LOST = 'a write whose answer was lost tells the truth, and its grant goes on';
const REQUEST_LOST = 'a write that never arrived tells the truth, and its grant goes on';

/** What the line to the resource does to a commit. */
const faults: readonly FenceMutant[] = [
  {
    does: 'sends a write again when there was no answer',
    foundBy: ANSWER_LOST,
    fence: class extends PlainFence {
      override async commit(...args: Commit): Promise<void> {
        const { trouble, values } = this.ground;
        await super.commit(...args);
        if (trouble === 'none') return;
        for (const [key, log] of args[2]) values.set(key, [...(log as string[]), ...(log as string[]).slice(-1)]);
      }
    },
  },
  {
    does: 'says that nothing was written when there was no answer',
    foundBy: ANSWER_LOST,
    fence: class extends PlainFence {
      override async commit(...args: Commit): Promise<void> {
        const { trouble } = this.ground;
        await super.commit(...args);
        if (trouble !== 'none') throw this.unavailable(args[0], 'not-written');
      }
    },
  },
  {
    does: 'sends a write again when there was no answer, and takes the refusal of the second for its answer',
    foundBy:
      'a write whose answer was lost, and that is refused when it asks again, does not say that nothing was written',
    fence: class extends PlainFence {
      override async commit(...args: Commit): Promise<void> {
        const { trouble } = this.ground;
        await super.commit(...args);
        if (trouble === 'none') return;
        for (let pause = 0; pause < 20; pause++) await yieldOnce();
        this.admit(args[0], args[1]);
      }
    },
  },
  {
    does: 'says that it does not know, though it could find out',
    foundBy: ANSWER_LOST,
    fence: class extends PlainFence {
      override async commit(...args: Commit): Promise<void> {
        const { trouble } = this.ground;
        await super.commit(...args);
        if (trouble !== 'none') throw this.unavailable(args[0], 'unknown');
      }
    },
  },
  {
    does: 'throws what its client throws',
    foundBy: REQUEST_LOST,
    fence: class extends PlainFence {
      override unavailable(): FenceUnavailableError {
        return new Error('socket hang up') as FenceUnavailableError;
      }
    },
  },
  {
    does: 'takes a write for written when there was no answer',
    foundBy: REQUEST_LOST,
    fence: class extends PlainFence {
      override async commit(...args: Commit): Promise<void> {
        await super.commit(...args).catch((error: unknown) => {
          if (!(error instanceof FenceUnavailableError)) throw error;
        });
      }
    },
  },
  {
    does: 'says that nothing was written, and sends it once more with the next write',
    foundBy: REQUEST_LOST,
    fence: class extends PlainFence {
      #kept: Commit | undefined;
      override async commit(...args: Commit): Promise<void> {
        const kept = this.#kept;
        this.#kept = args;
        await super.commit(...args);
        this.#kept = undefined;
        for (const [key, log] of kept?.[2] ?? []) {
          const now = this.ground.values.get(key) as readonly string[];
          this.ground.values.set(key, [...now, ...(log as string[]).slice(-1)]);
        }
      }
    },
  },
  {
    does: 'keeps the resource for a write that never ends',
    foundBy: 'what dies between the guard and the commit leaves nothing, and a later grant gets in',
    fence: class extends PlainFence {
      #isWriting = false;
      override async run<T>(body: (tx: MemoryTx) => T | Promise<T>, draft: MemoryTx): Promise<T> {
        this.#isWriting = true;
        return super.run(body, draft).finally(() => (this.#isWriting = false));
      }
      override async activate(grant: Grant | Holding): Promise<void> {
        return this.#isWriting ? never : super.activate(grant);
      }
    },
  },
];

/** Of atomicity, crowds and faults. */
export const moreFenceMutants: readonly FenceMutant[] = [...atomicity, ...crowds, ...faults];
