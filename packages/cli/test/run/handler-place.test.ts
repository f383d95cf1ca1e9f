import { LeaseManager, MemoryLeaseStore, RunCancelledError, type Lease } from '@leasehold/core';
import { expect, test, vi } from 'vitest';

import type { JobContext } from '../../src/run/context.ts';
import { HandlerPlace } from '../../src/run/isolated/handler-place.ts';
import { LeaseWindow } from '../../src/run/isolated/lease-window.ts';
import type { FromHandler, ToHandler } from '../../src/run/isolated/messages.ts';
import type { Peer } from '../../src/run/isolated/peer.ts';
import { recordingLog } from './support/log.ts';

/** A thread that says what the test says. */
class ToldPeer implements Peer {
  readonly kind = 'thread';
  readonly sharesMemory = true;
  readonly ended = new Promise<never>(() => {});
  readonly sent: string[] = [];
  terminations = 0;
  tell: (message: FromHandler) => void = () => {};

  onOver(): void {}
  send({ type }: ToHandler): void {
    this.sent.push(type);
  }
  listen(heard: (message: FromHandler) => void): void {
    this.tell = heard;
  }
  keep(): void {}
  terminate(): Promise<void> {
    this.terminations++;
    return Promise.resolve();
  }
}

function contextOf(lease: Lease, signal: AbortSignal): JobContext {
  const job = { name: 'job', id: null, data: undefined };
  const run = { tick: null, trigger: 'manual', attempt: 1 } as const;
  return { job, run, lease, signal, fences: {}, log: recordingLog().log };
}

test('a run that is told to end while its thread is being started was not begun, ends at once, and leaves the thread to the next', async () => {
  await using manager = new LeaseManager({ store: new MemoryLeaseStore() });
  await using lease = await manager.acquire('job');
  const peer = new ToldPeer();
  const place = new HandlerPlace(peer);
  const stop = new AbortController();
  const early = place.run(contextOf(lease, stop.signal), new LeaseWindow());
  stop.abort(new RunCancelledError('job', 'shutdown'));
  await expect(early).rejects.toMatchObject({ code: 'NOT_STARTED', cause: stop.signal.reason as Error });

  const late = place.run(contextOf(lease, stop.signal), new LeaseWindow());
  await expect(late).rejects.toMatchObject({ code: 'NOT_STARTED' });

  const next = place.run(contextOf(lease, new AbortController().signal), new LeaseWindow());
  peer.tell({ type: 'opened' });
  await vi.waitFor(() => expect(peer.sent).toEqual(['run']));
  peer.tell({ type: 'done', value: 7 });
  expect(await next).toBe(7);
  expect(place.isUsable).toBe(true);
  expect(peer.terminations).toBe(0);
});

test('a run that was begun is told to end, and what its lease was lost for comes out of one that was not', async () => {
  await using manager = new LeaseManager({ store: new MemoryLeaseStore() });
  await using lease = await manager.acquire('job');
  const peer = new ToldPeer();
  const place = new HandlerPlace(peer);
  const stop = new AbortController();
  const early = place.run(contextOf(lease, stop.signal), new LeaseWindow());
  const lost = new Error('lost');
  stop.abort(lost);
  await expect(early).rejects.toBe(lost);

  const other = new AbortController();
  const begun = place.run(contextOf(lease, other.signal), new LeaseWindow());
  peer.tell({ type: 'opened' });
  await vi.waitFor(() => expect(peer.sent).toEqual(['run']));
  other.abort(new RunCancelledError('job', 'shutdown'));
  expect(peer.sent).toEqual(['run', 'abort']);
  peer.tell({
    type: 'failed',
    error: { name: 'Error', message: '', stack: undefined, code: 'RUN_CANCELLED', reason: 'shutdown' },
  });
  await expect(begun).rejects.toBe(other.signal.reason);
});
