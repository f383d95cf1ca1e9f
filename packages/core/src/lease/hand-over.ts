import {
  LeaseLostError,
  ManagerClosedError,
  StoreUnavailableError,
  TokenOutOfRangeError,
  type LeaseholdError,
} from '../errors.ts';
import type { AcquireSettings } from '../options.ts';
import type { AdoptReply, ExtendVerdict } from '../store/store.ts';
import type { Granted } from './acquisition.ts';
import type { Context } from './context.ts';
import { failureOf, mayHaveRun } from './failure.ts';
import { newLeaseId } from './lease-id.ts';
import type { Tenure } from './tenure.ts';
import { timed, timedBatch } from './timed.ts';
import type { Ticket } from './ticket.ts';
import { elapsedMs, trustedMs, type Stamp } from './term.ts';
import { throwIfAborted } from './aborted.ts';
import { withdraw } from './withdraw.ts';
import { within } from './within.ts';

// An answer that was lost is asked for again, with the same leaseId: the adoption may have happened.
const TRIES = 3;

function unanswered(resource: string, cause: LeaseholdError): StoreUnavailableError {
  return new StoreUnavailableError('the adoption has no answer, and was taken back', {
    resource,
    mayHaveRun: true,
    cause,
  });
}

/** Leases that change hands. */
export class HandOver {
  readonly #context: Context;

  constructor(context: Context) {
    this.#context = context;
  }

  /** Extends once, so that the adopter has a whole ttl, then ends the lease here. If that fails it goes on as it was. */
  async give(tenure: Tenure): Promise<Ticket> {
    const { store, engine, tenures } = this.#context;
    const { resource, grant, timing, job, retentionMs } = tenure;
    tenure.assertHeld();
    // Revoked, or held for as long as it may be: it is to end, in any hands.
    if (tenure.final && tenure.cancellation !== undefined) throw tenure.cancellation;
    const item = { resource, leaseId: grant.leaseId, ttlMs: timing.ttlMs };
    let verdict: ExtendVerdict | undefined;
    let failure: LeaseholdError | undefined;
    const told = timedBatch([tenure]);
    try {
      [verdict] = await store.extend([item], { timeoutMs: timing.callTimeoutMs });
    } catch (error) {
      failure = failureOf(error, resource);
    }
    told?.(verdict === undefined ? [] : [verdict]);
    tenure.assertHeld();
    switch (verdict?.verdict) {
      case 'extended':
        break;
      case 'revoked':
        tenure.cancel('revoked');
        throw tenure.cancellation ?? tenure.lossError();
      case 'lost':
        tenure.lose(verdict.reason, 'by the word of the store');
        throw tenure.lossError();
      case 'foreign':
        tenure.lose('missing', `${verdict.key} holds something else`);
        throw tenure.lossError();
      case 'unknown':
      case undefined:
        throw failure ?? new StoreUnavailableError('no answer to the hand-over', { resource, mayHaveRun: true });
    }
    tenure.handOver();
    engine.keeper.drop(tenure);
    tenures.delete(tenure);
    const { leaseId, fencingToken } = grant;
    const { dirty } = tenure;
    return {
      v: 1,
      namespace: store.namespace,
      resource,
      leaseId,
      fencingToken,
      ttlMs: timing.ttlMs,
      job,
      ...(retentionMs !== undefined && { retentionMs }),
      ...(dirty && { dirty }),
    };
  }

  /** What the store made of the ticket: a lease of the caller's own. */
  async take(ticket: Ticket, { timing, signal }: AcquireSettings): Promise<Granted> {
    const { store, engine, closing, announcer, ownerRecord, settings } = this.#context;
    const { resource, retentionMs } = ticket;
    if (closing) throw new ManagerClosedError(resource);
    throwIfAborted(resource, signal);
    const leaseId = newLeaseId();
    let stamp: Stamp | undefined;
    let reply: AdoptReply | undefined;
    let dirty = false;
    const owner = ownerRecord.current;
    for (let tries = 1; reply === undefined; tries++) {
      try {
        reply = await timed(announcer, 'adopt', () =>
          store.adopt(
            {
              resource,
              leaseId,
              from: ticket.leaseId,
              ttlMs: timing.ttlMs,
              owner,
              channel: engine.mailbox.channel,
              history: settings.history,
              floor: 0,
              job: ticket.job,
            },
            { timeoutMs: timing.callTimeoutMs, sent: () => (stamp = engine.ownerClock.stamp()) },
          ),
        );
      } catch (error) {
        const failure = failureOf(error, resource);
        dirty ||= mayHaveRun(failure);
        if (!dirty) throw failure;
        if (tries === TRIES) {
          withdraw(this.#context, { resource, leaseId, job: ticket.job, dirty, retentionMs }, timing);
          throw mayHaveRun(failure) ? failure : unanswered(resource, failure);
        }
        // The answer was lost with the connection: the next one is under way.
        await this.#reconnection(timing.callTimeoutMs / 2);
      }
    }
    switch (reply.kind) {
      case 'granted': {
        const sent = stamp ?? engine.ownerClock.stamp();
        const { fencingToken, remainingMs, tick } = reply;
        const window = trustedMs(Math.min(timing.ttlMs, remainingMs), timing);
        const isWanted = !this.#context.closing && signal?.aborted !== true;
        if (window > elapsedMs(engine.ownerClock.since(sent)) && isWanted) {
          if (ticket.dirty === true) {
            const old = { resource, leaseId: ticket.leaseId, job: undefined, dirty: true, retentionMs };
            withdraw(this.#context, old, timing);
          }
          return { leaseId, fencingToken, remainingMs, stamp: sent, dirty, tick, ownerJson: owner.json };
        }
        withdraw(this.#context, { resource, leaseId, job: ticket.job, dirty: false, retentionMs }, timing);
        throwIfAborted(resource, signal);
        if (this.#context.closing) throw new ManagerClosedError(resource);
        break;
      }
      case 'lost':
        throw this.#lost(ticket, reply.reason);
      case 'out-of-range':
        throw new TokenOutOfRangeError(resource, reply.fencingToken, `the store ${store.description}`);
      case 'spent':
      case 'cancelled':
        break;
    }
    throw this.#lost(ticket, 'expired');
  }

  /** Resolves when the store can be reached again, or after `forMs`. */
  async #reconnection(forMs: number): Promise<void> {
    let stop = (): void => {};
    const again = new Promise<void>((resolve) => (stop = this.#context.store.onReconnect(resolve)));
    await within(this.#context.clock, again, forMs);
    stop();
  }

  #lost(ticket: Ticket, reason: LeaseLostError['reason']): LeaseLostError {
    const { resource, leaseId, fencingToken } = ticket;
    return new LeaseLostError(resource, { reason, leaseId, fencingToken, detail: 'there is nothing to adopt' });
  }
}
