// A fence for a resource of your own. What makes it one: check and change are a single step, with nothing in between.
import { admits, grantForWrite, grantOf, MAX_TOKEN_AHEAD_US, reportRefusal } from '@leasehold/core';
import { LeaseManager, StaleTokenError, TokenOutOfRangeError } from '@leasehold/core';
import type { Fence, Grant, Holding } from '@leasehold/core';
import { redisStore } from '@leasehold/core/redis';

/** A log book. A write gets a list to put its lines in; they are entered if its owner is the latest. */
class LogBook implements Fence<string[]> {
  readonly name = 'log book';
  readonly enforcing = true;
  readonly lines: string[] = [];
  readonly #highest = new Map<string, { readonly fencingToken: number; readonly leaseId: string | null }>();

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
    const highest = this.#highest.get(resource)?.fencingToken ?? 0;
    if (fencingToken >= highest) this.#raise(resource, fencingToken, null);
  }
  async highest(resource: string): ReturnType<Fence['highest']> {
    return this.#highest.get(resource) ?? null;
  }

  #admit(grant: Grant | Holding, asked: Grant): void {
    const { resource, fencingToken, leaseId } = asked;
    const highest = this.#highest.get(resource) ?? null;
    if (highest === null || admits(highest, asked)) return this.#raise(resource, fencingToken, leaseId);
    throw reportRefusal(grant, new StaleTokenError(resource, { fence: this.name, fencingToken, highest }));
  }
  #raise(resource: string, token: number, leaseId: string | null): void {
    // A mistyped token must not shut everybody out.
    if (token > Date.now() * 1000 + MAX_TOKEN_AHEAD_US) throw new TokenOutOfRangeError(resource, token, this.name);
    this.#highest.set(resource, { fencingToken: token, leaseId });
  }
}

const book = new LogBook();
const url = process.env.LEASEHOLD_REDIS_URL ?? 'redis://localhost:6379';
await using leases = new LeaseManager({ store: redisStore(url, { prefix: 'example' }) });
const watch = (line: string): Promise<Grant> =>
  leases.run('bridge', { fences: [book] }, async (lease) => {
    await book.write(lease, (lines) => void lines.push(line));
    return lease.grant;
  });
const early = await watch('first watch');
await watch('second watch');
await book.write(early, (lines) => void lines.push('too late')).catch((error: unknown) => console.log(String(error)));
console.log(book.lines.join(', '));
