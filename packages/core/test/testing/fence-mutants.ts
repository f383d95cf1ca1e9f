import { grantOf, type Grant, type Holding } from '../../src/fence/fence.ts';
import type { MemoryTx } from '../../src/fence/memory.ts';
import type { ManualClock } from '../../src/testing/manual-clock.ts';
import { moreFenceMutants } from './more-fence-mutants.ts';
import { PlainFence, type Ground, type Mark } from './plain-fence.ts';

/** A fence with one error, and the case that must find it. */
export interface FenceMutant {
  readonly does: string;
  readonly foundBy: string;
  readonly fence: new (clock: ManualClock, ground?: Ground) => PlainFence;
}

/** Who is let in. */
const admission: readonly FenceMutant[] = [
  {
    does: 'begins as if somebody had been admitted',
    foundBy: 'a fence that has seen nothing admits any grant, and knows it from then on',
    fence: class extends PlainFence {
      override mark(resource: string): Mark {
        return super.mark(resource) ?? { fencingToken: 0, leaseId: null };
      }
    },
  },
  {
    does: 'refuses the equal token of the same lease',
    foundBy: 'the same grant is admitted again and again',
    fence: class extends PlainFence {
      override admits(highest: Mark | null, grant: Grant): boolean {
        return highest === null || grant.fencingToken > highest.fencingToken;
      }
      override store(...[, , , changes]: Parameters<PlainFence['store']>): void {
        for (const [key, entry] of changes) this.ground.values.set(key, entry);
      }
    },
  },
  {
    does: 'admits everybody',
    foundBy: 'a later grant shuts out an earlier one, from its activation on',
    fence: class extends PlainFence {
      override admits(): boolean {
        return true;
      }
    },
  },
  {
    does: 'compares writes with writes and activations with activations',
    foundBy: 'what a grant read after its activation is still so when it writes: no earlier grant writes in between',
    fence: class extends PlainFence {
      #activated = new Map<string, Mark>();
      override async activate(grant: Grant | Holding): Promise<void> {
        const { resource, fencingToken, leaseId } = this.asked(grant);
        const highest = this.#activated.get(resource) ?? null;
        if (!this.admits(highest, grantOf(grant)) && highest !== null)
          throw this.refuse(grantOf(grant), grant, highest);
        this.#activated.set(resource, { fencingToken, leaseId });
      }
      override async highest(resource: string): Promise<Mark | null> {
        return (await super.highest(resource)) ?? this.#activated.get(resource) ?? null;
      }
    },
  },
  {
    does: 'lets a write in without keeping its grant',
    foundBy: 'a write admits like an activation: it shuts out every earlier grant',
    fence: class extends PlainFence {
      #isWriting = false;
      override async write<T>(grant: Grant | Holding, body: (tx: MemoryTx) => T | Promise<T>): Promise<T> {
        this.#isWriting = true;
        return super.write(grant, body).finally(() => (this.#isWriting = false));
      }
      override put(resource: string, mark: Mark): void {
        if (!this.#isWriting) super.put(resource, mark);
      }
    },
  },
  {
    does: 'compares the number alone',
    foundBy: 'the same token of another lease is refused: the number alone proves nothing',
    fence: class extends PlainFence {
      override admits(highest: Mark | null, grant: Grant): boolean {
        return highest === null || grant.fencingToken >= highest.fencingToken;
      }
    },
  },
  {
    does: 'forgets the highest when it refuses',
    foundBy: 'a refusal changes nothing',
    fence: class extends PlainFence {
      #refused = 0;
      override refuse(asked: Grant, grant: Grant | Holding, highest: Mark): unknown {
        // The second time in a row.
        if (++this.#refused % 2 === 0) this.ground.marks.delete(this.keyOf(asked.resource));
        return super.refuse(asked, grant, highest);
      }
    },
  },
  {
    does: 'ignores seals',
    foundBy: 'a seal shuts out every grant up to it, and admits nobody',
    fence: class extends PlainFence {
      override async sealOver(): Promise<void> {}
    },
  },
  {
    does: 'can be lowered by a seal',
    foundBy: 'a seal below the highest changes nothing',
    fence: class extends PlainFence {
      override async sealOver(_: Mark | null, resource: string, fencingToken: number): Promise<void> {
        this.put(resource, { fencingToken, leaseId: null });
      }
    },
  },
  {
    does: 'seals only what it knows',
    foundBy: 'a seal before anything else is remembered',
    fence: class extends PlainFence {
      override async sealOver(highest: Mark | null, resource: string, fencingToken: number): Promise<void> {
        if (highest !== null) await super.sealOver(highest, resource, fencingToken);
      }
    },
  },
  {
    does: 'takes whatever it is given for a grant',
    foundBy: 'what is neither a lease nor a grant is refused',
    fence: class extends PlainFence {
      override asked(grant: Grant | Holding): Grant {
        return 'grant' in grant ? grant.grant : grant;
      }
      override askedToWrite(grant: Grant | Holding): Grant {
        return 'grant' in grant ? super.askedToWrite(grant) : grant;
      }
    },
  },
];

/** How tokens and names are compared. */
const values: readonly FenceMutant[] = [
  {
    does: 'compares tokens as texts',
    foundBy: 'tokens are compared as numbers, to the last digit',
    fence: class extends PlainFence {
      override admits(highest: Mark | null, grant: Grant): boolean {
        const [mine, its] = [String(grant.fencingToken), String(highest?.fencingToken ?? '')];
        return mine > its || (mine === its && grant.leaseId === highest?.leaseId);
      }
    },
  },
  {
    does: 'keeps 14 digits of a token',
    foundBy: 'tokens are compared as numbers, to the last digit',
    fence: class extends PlainFence {
      override put(resource: string, mark: Mark): void {
        super.put(resource, { ...mark, fencingToken: Number(mark.fencingToken.toPrecision(14)) });
      }
    },
  },
  {
    does: 'keeps 32 bits of a token',
    foundBy: 'tokens are compared as numbers, to the last digit',
    fence: class extends PlainFence {
      override admits(highest: Mark | null, grant: Grant): boolean {
        return super.admits(highest, { ...grant, fencingToken: grant.fencingToken | 0 });
      }
    },
  },
  {
    does: 'reads a number out of whatever a seal is given',
    foundBy: 'what can be no token is refused, and changes nothing',
    fence: class extends PlainFence {
      override async seal(resource: string, fencingToken: number): Promise<void> {
        const read = Number(fencingToken);
        if (Number.isSafeInteger(read) && read > 0) return super.seal(resource, read);
        return super.seal(resource, fencingToken);
      }
    },
  },
  {
    does: 'accepts any token',
    foundBy: 'a token more than a day ahead is out of range, and shuts out nobody',
    fence: class extends PlainFence {
      override checkRange(): void {}
    },
  },
  {
    does: 'compares a token with what it knows, and not with its clock',
    foundBy: 'on a resource that nobody has touched, a token too far ahead is out of range as well',
    fence: class extends PlainFence {
      override checkRange(resource: string, fencingToken: number): void {
        if (this.mark(resource) !== null) super.checkRange(resource, fencingToken);
      }
    },
  },
  {
    does: 'tells nobody of a highest beyond its clock',
    foundBy: 'a refused grant learns the highest, and the next one, made above it, is admitted: one refusal is enough',
    fence: class extends PlainFence {
      override refuse(asked: Grant, grant: Grant | Holding, highest: Mark): unknown {
        const fencingToken = Math.min(highest.fencingToken, this.clock.wallUs() + 60_000_000);
        return super.refuse(asked, grant, { ...highest, fencingToken });
      }
    },
  },
  {
    does: 'makes its keys of letters and digits',
    foundBy: 'each resource has a fence of its own, however alike the names',
    fence: class extends PlainFence {
      override keyOf(resource: string): string {
        return resource.replaceAll(/[^\w/-]/g, '_');
      }
    },
  },
  {
    does: 'knows a resource by its name without the namespace',
    foundBy: 'the namespaces are kept apart: one resource in two of them has two fences',
    fence: class extends PlainFence {
      override keyOf(resource: string): string {
        return resource.slice(resource.indexOf('/') + 1);
      }
    },
  },
  {
    does: 'cuts long names off',
    foundBy: 'names as long and as strange as they may be are names and nothing else',
    fence: class extends PlainFence {
      override keyOf(resource: string): string {
        return resource.slice(0, 128);
      }
    },
  },
  {
    does: 'takes names for paths',
    foundBy: 'names as long and as strange as they may be are names and nothing else',
    fence: class extends PlainFence {
      override keyOf(resource: string): string {
        return new URL(resource.replaceAll(/[?#%\\]/g, '_'), 'file:///').pathname;
      }
    },
  },
  {
    does: 'compares leaseIds as a database with a friendly collation does',
    foundBy: 'leaseIds are compared byte by byte, whatever is in them',
    fence: class extends PlainFence {
      override admits(highest: Mark | null, grant: Grant): boolean {
        const isSame = highest?.leaseId?.localeCompare(grant.leaseId, 'en', { sensitivity: 'accent' }) === 0;
        return super.admits(highest, isSame ? { ...grant, leaseId: highest?.leaseId ?? '' } : grant);
      }
    },
  },
];

export const fenceMutants: readonly FenceMutant[] = [...admission, ...values, ...moreFenceMutants];
