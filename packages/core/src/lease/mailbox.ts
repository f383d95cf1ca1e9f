import { randomBytes } from 'node:crypto';
import type { LeaseStore, StoreMessage } from '../store/store.ts';

/** Who is told what; each is asked to look for itself, none to believe it. */
export interface Addressees {
  /** A waiter: ask the store, now or in so many ms. */
  waiter(leaseId: string, afterMs: number): void;
  /** An owner: extend now, the store may say more. */
  owner(leaseId: string): void;
  /** An owner that may keep a lease that nobody uses: somebody else wants the resource. */
  wanted(leaseId: string): void;
  /** A process that put work aside. */
  parked(resource: string): void;
}

/**
 * The channel of a process: where the store tells it about its turns and revocations. An accelerator; everything that
 * comes here is found out without it, within a refresh.
 */
export class Mailbox {
  readonly #store: LeaseStore;
  readonly #addressees: Addressees;
  readonly #name: string;
  #listening: Promise<void> | undefined;
  #isDeaf = false;
  #isOpen = false;

  constructor(store: LeaseStore, addressees: Addressees) {
    this.#store = store;
    this.#addressees = addressees;
    this.#name = `${store.namespace}:owner:${randomBytes(9).toString('base64url')}`;
  }

  /** What requests carry: empty if we may not listen. Begins to listen, without waiting for it. */
  get channel(): string {
    void this.open();
    return this.#isDeaf ? '' : this.#name;
  }

  /** Whether `open` has resolved. */
  get isOpen(): boolean {
    return this.#isOpen;
  }

  /** Resolves once we listen, or know that we may not. */
  open(): Promise<void> {
    return (this.#listening ??= this.#open());
  }

  async #open(): Promise<void> {
    try {
      await this.#store.subscribe(this.#name, (message) => this.#deliver(message));
    } catch {
      // Not allowed, or the store is out of reach: without it a hand-over takes up to a refresh. Tried again later.
      this.#isDeaf = true;
    }
    this.#isOpen = true;
  }

  /** The store can be reached again. */
  reconnected(): void {
    if (!this.#isDeaf) return;
    this.#isDeaf = false;
    this.#isOpen = false;
    this.#listening = undefined;
  }

  #deliver({ kind, resource, leaseId, afterMs }: StoreMessage): void {
    switch (kind) {
      case 'go':
      case 'look':
        this.#addressees.waiter(leaseId, kind === 'look' ? afterMs : 0);
        break;
      case 'revoked':
        this.#addressees.owner(leaseId);
        break;
      case 'wanted':
        this.#addressees.wanted(leaseId);
        break;
      case 'free':
        this.#addressees.parked(resource);
        break;
    }
  }
}
