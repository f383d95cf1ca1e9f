import type { Outcome, ReleaseReply } from '../store/store.ts';
import type { Context } from './context.ts';
import { failureOf } from './failure.ts';
import type { ReleaseResult, Tenure } from './tenure.ts';
import { timed } from './timed.ts';
import { withdraw } from './withdraw.ts';
import { TIMED_OUT, within } from './within.ts';

/** `released` of this very leaseId, told as its loss, is an earlier try of ours whose answer did not arrive. */
function isReleased(reply: ReleaseReply | undefined): boolean {
  return reply?.kind === 'released' || reply?.reason === 'released';
}

/** Ends tenures at the store. */
export class Releaser {
  readonly #context: Context;

  constructor(context: Context) {
    this.#context = context;
  }

  /** Never rejects. Asked again it answers the same. */
  release(tenure: Tenure, outcome: Outcome): Promise<ReleaseResult> {
    return (tenure.releasing ??= this.#end(tenure, outcome));
  }

  async #end(tenure: Tenure, outcome: Outcome): Promise<ReleaseResult> {
    const { resource, grant, timing, job, retentionMs } = tenure;
    const held = tenure.beginRelease();
    this.#context.engine.keeper.drop(tenure);
    const { store, announcer, settings } = this.#context;
    const { leaseId } = grant;
    const send = (): Promise<ReleaseReply> =>
      timed(announcer, 'release', () =>
        store.release(
          { resource, leaseId, outcome, floor: tenure.floor, job, history: settings.history, retentionMs },
          { timeoutMs: timing.callTimeoutMs },
        ),
      );
    try {
      return held ? await this.#releaseHeld(tenure, send) : this.#releaseLost(tenure, send);
    } finally {
      if (tenure.dirty && !tenure.handedOver) {
        // The outcome of its tick has been written; this is for the leaseId alone.
        withdraw(this.#context, { resource, leaseId, job: undefined, dirty: true, retentionMs }, timing);
      }
      tenure.end();
      this.#context.tenures.delete(tenure);
    }
  }

  async #releaseHeld(tenure: Tenure, send: () => Promise<ReleaseReply>): Promise<ReleaseResult> {
    let reply: ReleaseReply | undefined;
    try {
      reply = await send();
    } catch (error) {
      const confirmed = this.#context.engine.settler.add(async () => (reply = await send()), tenure.timing.ttlMs);
      // Two calls' time in all for the one who waits; the rest happens behind his back.
      const inTime = await within(this.#context.clock, confirmed, tenure.timing.callTimeoutMs);
      if (inTime !== true || reply === undefined) {
        this.#context.announcer.releaseUnconfirmed(tenure, failureOf(error, tenure.resource));
        // What comes late may be that it is in other hands: whether by our release or by its end nobody can tell then.
        if (inTime === TIMED_OUT) void confirmed.then(() => isReleased(reply) && this.#announceReleased(tenure));
        return 'unconfirmed';
      }
    }
    if (reply.kind === 'lost' && !isReleased(reply)) {
      tenure.lose(reply.reason, 'by the word of the store, at the release');
      return 'lost';
    }
    this.#announceReleased(tenure);
    return 'released';
  }

  /** The record may still name this leaseId: end that, for those who wait, but without making anyone wait for it. */
  #releaseLost(tenure: Tenure, send: () => Promise<ReleaseReply>): ReleaseResult {
    const reason = tenure.lossError().reason;
    // In other hands, it is not ours to end.
    if (reason === 'handed-over') return 'lost';
    const nothingToEnd = reason === 'superseded' || reason === 'force-released';
    if (!nothingToEnd || tenure.job !== undefined) void this.#context.engine.settler.add(send, tenure.timing.ttlMs);
    return 'lost';
  }

  #announceReleased(tenure: Tenure): void {
    this.#context.announcer.released(tenure, this.#context.clock.monotonicMs() - tenure.startedMs);
  }
}
