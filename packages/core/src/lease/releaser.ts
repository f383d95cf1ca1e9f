import type { Outcome, ReleaseReply } from '../store/store.ts';
import type { Context } from './context.ts';
import { failureOf } from './failure.ts';
import type { Lingerer } from './lingerer.ts';
import type { ReleaseResult, Tenure } from './tenure.ts';
import { patienceMs } from './settler.ts';
import { timed } from './timed.ts';
import { withdraw } from './withdraw.ts';
import { TIMED_OUT, within } from './within.ts';

/** `released` of this very leaseId, told as its loss, is an earlier try of ours whose answer did not arrive. */
function isReleased(reply: ReleaseReply | undefined): boolean {
  return reply?.kind === 'released' || reply?.reason === 'released';
}

/** The end of a lease that lingers: nothing is on its way to the store. One for all, because jobs end so by the thousand. */
export const KEPT: Promise<ReleaseResult> = Promise.resolve('kept');

/** Ends tenures at the store. */
export class Releaser {
  readonly #context: Context;
  readonly #lingerer: Lingerer;
  readonly #ended: () => void;

  /** `ended` is called after each. */
  constructor(context: Context, lingerer: Lingerer, ended: () => void) {
    this.#context = context;
    this.#lingerer = lingerer;
    this.#ended = ended;
  }

  /** Never rejects. Asked again it answers the same. */
  release(tenure: Tenure, outcome: Outcome): Promise<ReleaseResult> {
    return (tenure.releasing ??= this.#begin(tenure, outcome));
  }

  /** Of a lease that has lingered: its end was announced when its last holder released it. */
  giveBack(tenure: Tenure): Promise<unknown> {
    const { ttlMs } = tenure.timing;
    return this.#context.engine.settler.add((isRepeat) => this.#send(tenure, 'done', isRepeat), ttlMs);
  }

  #begin(tenure: Tenure, outcome: Outcome): Promise<ReleaseResult> {
    const isUndoubted = tenure.spare !== undefined && tenure.isUndoubted();
    const held = tenure.beginRelease();
    // Who was told just now that it is lost may have released it as well.
    if (tenure.releasing !== undefined) return tenure.releasing;
    // Whoever is stopped at any step in between has lost it, and keeps nothing.
    const isKept = held && isUndoubted && this.#lingerer.keep(tenure, outcome);
    this.#context.engine.keeper.drop(tenure);
    if (!isKept) return this.#end(tenure, outcome, held);
    // Before anybody is told, who may release it again: that must not give back what is kept.
    tenure.releasing = KEPT;
    this.#context.announcer.released(tenure);
    this.#forget(tenure);
    return KEPT;
  }

  async #end(tenure: Tenure, outcome: Outcome, held: boolean): Promise<ReleaseResult> {
    try {
      if (!held) return this.#releaseLost(tenure, outcome);
      let reply: ReleaseReply | undefined;
      try {
        reply = await this.#send(tenure, outcome);
      } catch (error) {
        reply = await this.#sendAgain(tenure, outcome, error);
      }
      if (reply === undefined) return 'unconfirmed';
      if (reply.kind === 'lost' && !isReleased(reply)) {
        tenure.lose(reply.reason, 'by the word of the store, at the release');
        return 'lost';
      }
      this.#context.announcer.released(tenure);
      return 'released';
    } finally {
      if (tenure.dirty && !tenure.handedOver) {
        const { resource, grant, retentionMs } = tenure;
        // The outcome of its tick has been written; this is for the leaseId alone.
        const { leaseId } = grant;
        withdraw(this.#context, { resource, leaseId, job: undefined, dirty: true, retentionMs }, tenure.timing);
      }
      this.#forget(tenure);
    }
  }

  #forget(tenure: Tenure): void {
    tenure.end();
    this.#context.tenures.delete(tenure);
    this.#ended();
  }

  #send(tenure: Tenure, outcome: Outcome, isRepeat = false): Promise<ReleaseReply> {
    const { store, announcer, settings } = this.#context;
    const { resource, grant, timing, floor, job, retentionMs } = tenure;
    const { leaseId } = grant;
    const request = { resource, leaseId, outcome, floor, job, history: settings.history, retentionMs };
    const timeoutMs = patienceMs(timing.callTimeoutMs, isRepeat);
    return timed(announcer, 'release', () => store.release(request, { timeoutMs }));
  }

  /** Its first try has failed. Undefined if the store has not answered after two calls' time in all. */
  async #sendAgain(tenure: Tenure, outcome: Outcome, error: unknown): Promise<ReleaseReply | undefined> {
    const { engine, clock, announcer } = this.#context;
    let reply: ReleaseReply | undefined;
    const send = async (isRepeat: boolean) => (reply = await this.#send(tenure, outcome, isRepeat));
    const confirmed = engine.settler.add(send, tenure.timing.ttlMs);
    // The rest happens behind the back of the one who waits.
    const inTime = await within(clock, confirmed, tenure.timing.callTimeoutMs);
    if (inTime === true && reply !== undefined) return reply;
    announcer.releaseUnconfirmed(tenure, failureOf(error, tenure.resource));
    // What comes late may be that it is in other hands: whether by our release or by its end nobody can tell then.
    if (inTime === TIMED_OUT) void confirmed.then(() => isReleased(reply) && announcer.released(tenure));
    return undefined;
  }

  /** The record may still name this leaseId: end that, for those who wait, but without making anyone wait for it. */
  #releaseLost(tenure: Tenure, outcome: Outcome): ReleaseResult {
    const reason = tenure.lossError().reason;
    // In other hands, it is not ours to end.
    if (reason === 'handed-over') return 'lost';
    const nothingToEnd = reason === 'superseded' || reason === 'force-released';
    if (!nothingToEnd || tenure.job !== undefined) {
      void this.#context.engine.settler.add((isRepeat) => this.#send(tenure, outcome, isRepeat), tenure.timing.ttlMs);
    }
    return 'lost';
  }
}
