// A process that wants several leases again and again, in every way in which a manager gives them.
import { setTimeout as sleep } from 'node:timers/promises';
import { qualify, type AcquireOptions, type Lease, type Ticket } from '@leasehold/core';
import type { Recording } from '@leasehold/core/testing/history';

import { heard, say } from '../../support/child-side.ts';
import { Owner } from './owner.ts';

const owner = new Owner();
const { manager, recorder, random } = owner;
const { resources, prefix, ttlMs } = owner.setup;
const closing = new AbortController();

async function want(resource: string): Promise<void> {
  const wanting = recorder.begin('want', { resource: qualify(prefix, resource) });
  await owner.tolerant(() => take(resource, wanting));
  wanting.end('fail');
}

function take(resource: string, wanting: Recording): Promise<unknown> {
  const options: AcquireOptions = { fences: [owner.fence], signal: closing.signal };
  let maxHoldMs: number | undefined;
  const body = (lease: Lease): Promise<void> => {
    const { leaseId, fencingToken } = lease;
    wanting.end('ok', { leaseId, fencingToken, maxHoldMs });
    return owner.work(lease, owner.manner());
  };
  const run = (lease: Lease): Promise<void> => {
    const atWork = recorder.begin('body', { ...lease.grant });
    return body(lease).finally(() => atWork.end('ok'));
  };
  const way = random();
  if (way < 0.65) return manager.run(resource, { ...options, wait: Infinity }, run);
  if (way < 0.75) {
    maxHoldMs = ttlMs;
    return manager.run(resource, { ...options, wait: ttlMs * random() * 2, maxHold: ttlMs }, run);
  }
  if (way < 0.85) return manager.tryRun(resource, options, run);
  return handOver(resource, { ...options, wait: Infinity }, body);
}

/** A lease by hand, which another process may get. */
async function handOver(
  resource: string,
  options: AcquireOptions,
  body: (lease: Lease) => Promise<void>,
): Promise<void> {
  const lease = await manager.acquire(resource, options);
  try {
    await body(lease);
    if (random() < 0.6) {
      const ticket = await lease.handOver();
      recorder.line('handed-over', 'ok', { resource: lease.grant.resource, leaseId: lease.leaseId });
      await say('ticket', { ticket });
    }
  } finally {
    await lease.release();
  }
}

async function adoptAll(): Promise<void> {
  for (;;) {
    const { ticket } = await heard<{ type: string; ticket: Ticket }>('adopt');
    void owner.tolerant(async () => {
      const lease = await manager.adopt(ticket, { fences: [owner.fence] });
      await owner.work(lease, owner.manner()).finally(() => lease.release());
    });
  }
}

async function wantAgainAndAgain(resource: string): Promise<void> {
  while (!closing.signal.aborted) {
    await want(resource);
    await sleep(5 + random() * 100);
  }
}

void adoptAll();
const working = Promise.all(resources.map(wantAgainAndAgain));
await say('ready');
await owner.told();
closing.abort();
await working;
await owner.close();
