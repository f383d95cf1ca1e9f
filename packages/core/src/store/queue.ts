/** The queue of a resource: who waits, whose turn it is, and who is told. Pure. */

import { SILENCE, type Decision, type Message, type ResourceState, type Waiter } from './state.ts';
import type { AcquireReply, AcquireRequest } from './store.ts';

const MAX_DEAD_HEADS = 100;

/** Why an acquire is answered no, as a reply of the kind `busy` has it. */
export type Obstacle = Omit<Extract<AcquireReply, { kind: 'busy' }>, 'kind'>;

/** A no, as the mode has it: `try` goes away, `wait` takes or keeps its place, `park` leaves its channel. */
export function stand(
  state: ResourceState,
  request: AcquireRequest,
  nowUs: number,
  obstacle: Obstacle,
): Decision<AcquireReply> {
  const { leaseId, channel, mode } = request;
  const liveMs = 3 * request.waitRefreshMs;
  const life = { channel, liveMs, liveUntilUs: nowUs + liveMs * 1000 };
  if (mode === 'wait') {
    const queue = [...state.queue];
    let position = queue.findIndex((waiter) => waiter.leaseId === leaseId);
    if (position < 0) position = queue.length;
    queue[position] = { leaseId, ...life };
    return { state: { ...state, queue }, reply: { kind: 'queued', position, ...obstacle }, messages: SILENCE };
  }
  const reply: AcquireReply = { kind: 'busy', ...obstacle };
  if (mode === 'try' || channel === '') return { state, reply, messages: SILENCE };
  const parked = [...state.parked.filter((process) => process.channel !== channel), life];
  return { state: { ...state, parked }, reply, messages: SILENCE };
}

/** Gives a free resource to the first live waiter for a moment; with none, one parked process is told that it is free. */
export function openTurn(state: ResourceState, ttlMs: number, nowUs: number): Omit<Decision<never>, 'reply'> {
  const queue = withoutDeadHeads(state.queue, nowUs);
  const [head, second] = queue;
  if (head !== undefined) {
    // Opened before, after an expiry that this release comes too late for: it runs on.
    if (state.turn?.leaseId === head.leaseId) return { state: { ...state, queue }, messages: SILENCE };
    const claimMs = Math.min(Math.max(ttlMs / 10, 50), 500);
    const messages = [...tell('go', head, 0)];
    if (second !== undefined && second.liveUntilUs > nowUs) messages.push(...tell('look', second, claimMs));
    const turn = { leaseId: head.leaseId, claimMs, untilUs: nowUs + claimMs * 1000 };
    return { state: { ...state, queue, turn }, messages };
  }
  const [told, ...parked] = state.parked.filter((process) => process.liveUntilUs > nowUs);
  const messages = told === undefined ? SILENCE : tell('free', { channel: told.channel, leaseId: '' }, 0);
  return { state: { ...state, queue, turn: null, parked }, messages };
}

/** Nothing if nobody listens. */
export function tell(
  kind: Message['kind'],
  whom: { readonly channel: string; readonly leaseId: string },
  afterMs: number,
): readonly Message[] {
  const { channel, leaseId } = whom;
  return channel === '' ? SILENCE : [{ channel, kind, leaseId, afterMs }];
}

export function withoutDeadHeads(queue: readonly Waiter[], nowUs: number): readonly Waiter[] {
  let dead = 0;
  for (const waiter of queue) {
    if (waiter.liveUntilUs > nowUs || dead === MAX_DEAD_HEADS) break;
    dead++;
  }
  return dead === 0 ? queue : queue.slice(dead);
}
