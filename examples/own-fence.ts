// A fence for a resource of your own. What makes it one: check and change are a single step, with nothing in between.
import { admits, grantForWrite, grantOf, MAX_TOKEN_AHEAD_US, reportRefusal } from '@leasehold/core';
import { LeaseManager, StaleTokenError, TokenOutOfRangeError } from '@leasehold/core';
import type { Fence, Grant, Holding } from '@leasehold/core';
import { redisStore } from '@leasehold/core/redis';

type Highest = Awaited<ReturnType<Fence['highest']>>;

/** A log book. A write gets a list to put its lines in; they are entered if its owner is the latest. */
class LogBook implements Fence<string[]> {
  readonly name = 'log book';
  readonly enforcing = true;
  readonly lines: string[] = [];
  readonly #highest = new Map<string, NonNullable<Highest>>();

  async activate(grant: Grant | Holding): Promise<void> {
    this.#admit(grant, grantOf(grant));
  }

  async write<T>(grant: Grant | Holding, body: (lines: string[]) => T | Promise<T>): Promise<T> {
    const lines: string[] = [];
    const value = await body(lines);
    this.#admit(grant, grantForWrite(this, grant));
    this.lines.push(...lines);
    return value;
  }

  async seal(resource: string, fencingToken: number): Promise<void> {
    if (fencingToken < (this.#highest.get(resource)?.fencingToken ?? 0)) return;
    this.#highest.set(resource, { fencingToken, leaseId: null });
  }

  async highest(resource: string): Promise<Highest> {
    return this.#highest.get(resource) ?? null;
  }

  #admit(grant: Grant | Holding, asked: Grant): void {
    const { resource, fencingToken, leaseId } = asked;
    const highest = this.#highest.get(resource) ?? null;
    if (fencingToken > Date.now() * 1000 + MAX_TOKEN_AHEAD_US)
      throw new TokenOutOfRangeError(resource, fencingToken, this.name);
    if (highest !== null && !admits(highest, asked)) {
      throw reportRefusal(grant, new StaleTokenError(resource, { fence: this.name, fencingToken, highest }));
    }
    this.#highest.set(resource, { fencingToken, leaseId });
  }
}

const book = new LogBook();
await using leases = new LeaseManager({
  store: redisStore(process.env.LEASEHOLD_REDIS_URL ?? 'redis://localhost:6379'),
});
const watch = (line: string): Promise<Grant> =>
  leases.run('bridge', { fences: [book] }, async (lease) => {
    await book.write(lease, (lines) => void lines.push(line));
    return lease.grant;
  });

const early = await watch('first watch');
await watch('second watch');
await book.write(early, (lines) => void lines.push('too late')).catch((error: unknown) => console.log(String(error)));
console.log(book.lines.join(', '));
