import { describe, expect, test } from 'vitest';

import { systemClock, type Clock } from '../../src/clock.ts';
import { nextCell } from '../../src/conditional/cell.ts';
import { conditionalFence } from '../../src/conditional/fence.ts';
import { LeaseLostError, type LeaseholdError } from '../../src/errors.ts';
import type { Grant, Holding } from '../../src/fence/fence.ts';
import { newLeaseId, unique } from '../../src/testing/unique.ts';
import { Cells } from './cells.ts';
import { append, fenceOver } from './subject.ts';
import { thrownBy, unreadable } from '../thrown.ts';

function grantOn(resource: string, fencingToken = systemClock.wallUs()): Grant {
  return { resource, fencingToken, leaseId: newLeaseId() };
}

/** A place with a grant that has written once, and another process that has the same grant. */
async function begin(timeout?: number) {
  const cells = new Cells();
  const fence = fenceOver(cells, timeout);
  const other = fenceOver(cells);
  const grant = grantOn(`test/${unique('r')}`);
  await fence.activate(grant);
  // The one that proves the place, and another so that the sibling has, too.
  for (const each of [fence, other]) await each.write(grant, (tx) => append(tx, 'before'));
  let bodies = 0;
  const write = (holder: Grant | Holding = grant): Promise<void> =>
    fence.write(holder, (tx) => {
      bodies++;
      append(tx, 'mine');
    });
  return {
    cells,
    fence,
    grant,
    write,
    bodies: () => bodies,
    sibling: (entry: string) => other.write(grant, (tx) => append(tx, entry)),
    entries: () => cells.entries(grant.resource).slice(2),
  };
}

async function failure(work: Promise<unknown>): Promise<LeaseholdError> {
  return (await work.then(
    () => new Error('it resolved'),
    (error: unknown) => error,
  )) as LeaseholdError;
}

function once(act: () => unknown): () => unknown {
  let isDone = false;
  return () => {
    if (isDone) return;
    isDone = true;
    return act();
  };
}

describe('what became of a write that got no answer', () => {
  test('it was carried out: that is found, and the body runs once', async () => {
    const { cells, write, bodies, entries } = await begin();
    cells.faults.push('lose-answer');
    const sent = cells.sent;
    await write();
    expect(entries()).toEqual(['mine']);
    expect([bodies(), cells.sent - sent]).toEqual([1, 1]);
  });

  test('it was lost: the same is sent again, without another run of the body', async () => {
    const { cells, write, bodies, entries } = await begin();
    cells.faults.push('lose-request', 'lose-request');
    await write();
    expect(entries()).toEqual(['mine']);
    expect(bodies()).toBe(1);
  });

  test('it is late, and meets its own second copy: it is there once', async () => {
    const { cells, write, entries } = await begin();
    cells.faults.push('late');
    await write();
    cells.deliver();
    expect(entries()).toEqual(['mine']);
  });

  test('it is late, and comes before its own second copy: it is there once, and known', async () => {
    const { cells, write, bodies, entries } = await begin();
    cells.faults.push('late');
    const ids: string[] = [];
    cells.onRequest = (cell) => {
      ids.push(cell.writeId);
      if (ids.length === 2) cells.deliver();
    };
    await write();
    expect(entries()).toEqual(['mine']);
    expect(bodies()).toBe(1);
    expect(new Set(ids).size).toBe(1);
  });

  test('a sibling was faster, so it can never arrive: the body runs again, over what the sibling wrote', async () => {
    const { cells, write, sibling, bodies, entries } = await begin();
    cells.faults.push('late');
    cells.whenItLooks(() => sibling('sibling'));
    await write();
    cells.deliver();
    expect(entries()).toEqual(['sibling', 'mine']);
    expect(bodies()).toBe(2);
  });

  test('it was carried out and a sibling wrote after it: that is found in what the cell remembers', async () => {
    const { cells, write, sibling, bodies, entries } = await begin();
    cells.faults.push('lose-answer');
    cells.whenItLooks(async () => {
      for (let index = 1; index <= 16; index++) await sibling(`sibling ${index}`);
    });
    await write();
    expect(entries().filter((entry) => entry === 'mine')).toHaveLength(1);
    expect(bodies()).toBe(1);
  });

  test.each([
    ['was carried out', 'lose-answer'],
    ['was lost', 'lose-request'],
  ] as const)('it %s and so many wrote after it that its trace would be gone: unknown', async (_, fault) => {
    const { cells, write, sibling, bodies, entries } = await begin();
    cells.faults.push(fault);
    cells.whenItLooks(async () => {
      for (let index = 1; index <= 17; index++) await sibling(`sibling ${index}`);
    });
    expect(await failure(write())).toMatchObject({ code: 'FENCE_UNAVAILABLE', outcome: 'unknown' });
    expect(entries().filter((entry) => entry === 'mine')).toHaveLength(fault === 'lose-answer' ? 1 : 0);
    expect(bodies()).toBe(1);
  });

  test('it was lost and as many wrote after it as a cell remembers: not written, so the body runs again', async () => {
    const { cells, write, sibling, bodies, entries } = await begin();
    cells.faults.push('lose-request');
    cells.whenItLooks(async () => {
      for (let index = 1; index <= 16; index++) await sibling(`sibling ${index}`);
    });
    await write();
    expect(entries().filter((entry) => entry === 'mine')).toHaveLength(1);
    expect(bodies()).toBe(2);
  });

  test('a later grant was admitted: it is stale, for certain, and the lease hears of it', async () => {
    const { cells, fence, grant, write, entries } = await begin();
    const later = grantOn(grant.resource);
    const refusals: unknown[] = [];
    const holding = { mayWrite: () => true, refused: (error: unknown) => void refusals.push(error) };
    cells.faults.push('late');
    cells.whenItLooks(() => fence.activate(later));
    const { fencingToken, leaseId } = later;
    expect(await failure(write({ grant, assertHeld() {}, holding }))).toMatchObject({
      code: 'STALE_TOKEN',
      highest: { fencingToken, leaseId },
    });
    expect(refusals).toHaveLength(1);
    cells.deliver();
    expect(entries()).toEqual([]);
  });

  test('a conflict is not believed either: a client may have sent it twice', async () => {
    const { cells, write, bodies, entries } = await begin();
    cells.faults.push('twice');
    await write();
    expect(entries()).toEqual(['mine']);
    expect(bodies()).toBe(1);
  });

  test('a conflict with nobody: the same is sent again', async () => {
    const { cells, write, bodies, entries } = await begin();
    cells.faults.push('conflict', 'conflict');
    await write();
    expect(entries()).toEqual(['mine']);
    expect(bodies()).toBe(1);
  });

  test('looking is repeated until there is an answer', async () => {
    const { cells, write, entries } = await begin();
    cells.faults.push('lose-answer');
    let looks = 0;
    cells.onRead = () => {
      if (cells.faults.length === 0 && ++looks < 3) throw new Error('no connection');
    };
    await write();
    expect(looks).toBe(3);
    expect(entries()).toEqual(['mine']);
  });

  test('the lease is lost before the same could be sent again: unknown, because of that', async () => {
    const { cells, grant, write } = await begin();
    const { resource, fencingToken, leaseId } = grant;
    let isHeld = true;
    const lost = new LeaseLostError(resource, { reason: 'expired', leaseId, fencingToken });
    const assertHeld = (): void => {
      if (!isHeld) throw lost;
    };
    cells.faults.push('late');
    cells.whenItLooks(() => (isHeld = false));
    const sent = cells.sent;
    const work = write({ grant, assertHeld, holding: { mayWrite: () => true, refused() {} } });
    expect(await failure(work)).toMatchObject({ code: 'FENCE_UNAVAILABLE', outcome: 'unknown', cause: lost });
    expect(cells.sent - sent).toBe(1);
  });

  test('the cell was deleted: unknown, and said so', async () => {
    const { cells, grant, write } = await begin();
    cells.faults.push('lose-answer');
    cells.whenItLooks(() => cells.put(grant.resource, undefined));
    const error = await failure(write());
    expect(error).toMatchObject({ code: 'FENCE_UNAVAILABLE', outcome: 'unknown' });
    expect(error.message).toContain('somebody has deleted it');
  });

  test('the first cell of a resource: lost, late or carried out, it is there once', async () => {
    for (const fault of ['lose-request', 'lose-answer', 'late'] as const) {
      const cells = new Cells();
      const fence = fenceOver(cells);
      const grant = grantOn('test/new');
      cells.faults.push(fault);
      await fence.write(grant, (tx) => append(tx, 'first'));
      cells.deliver();
      expect(cells.entries('test/new')).toEqual(['first']);
    }
  });

  test('activations and seals find out just the same', async () => {
    for (const fault of ['lose-request', 'lose-answer', 'late', 'twice', 'conflict'] as const) {
      const { cells, fence, grant } = await begin();
      const later = grantOn(grant.resource);
      cells.faults.push(fault);
      await fence.activate(later);
      expect(await fence.highest(grant.resource)).toMatchObject({ leaseId: later.leaseId });
      cells.faults.push(fault);
      await fence.seal(grant.resource, later.fencingToken + 1);
      cells.deliver();
      expect(await fence.highest(grant.resource)).toEqual({ fencingToken: later.fencingToken + 1, leaseId: null });
    }
  });
});

describe('every call settles by its deadline', () => {
  // A third of it is for one request: more than a busy machine takes for one here.
  const timeout = 600;

  async function within(work: Promise<unknown>): Promise<LeaseholdError> {
    const beganMs = performance.now();
    const error = await failure(work);
    expect(performance.now() - beganMs).toBeLessThan(timeout + 1000);
    return error;
  }

  test('nothing answers a request: unknown', async () => {
    const { cells, write, entries } = await begin(timeout);
    cells.faults.push('hang', 'hang', 'hang', 'hang', 'hang');
    expect(await within(write())).toMatchObject({ code: 'FENCE_UNAVAILABLE', outcome: 'unknown' });
    cells.deliver();
    expect(entries()).toEqual(['mine']);
  });

  test('nothing can be read at first: not written, for certain', async () => {
    const { cells, fence, grant, write, bodies } = await begin(timeout);
    cells.onRead = () => new Promise(() => {});
    const calls = [write, () => fence.activate(grant), () => fence.seal(grant.resource, 1)];
    for (const call of [...calls, () => fence.highest(grant.resource)]) {
      expect(await within(call())).toMatchObject({ code: 'FENCE_UNAVAILABLE', outcome: 'not-written' });
    }
    expect(bodies()).toBe(0);
  });

  test('nothing can be read after a request without an answer: unknown', async () => {
    const { cells, write } = await begin(timeout);
    cells.faults.push('lose-answer');
    cells.onRequest = () => {
      cells.onRead = () => {
        throw new Error('no connection');
      };
    };
    const error = await within(write());
    expect(error).toMatchObject({ code: 'FENCE_UNAVAILABLE', outcome: 'unknown' });
    expect(error.message).toContain('the answer was lost, and it could not be read: no connection');
  });

  test('siblings are always faster: not written, for certain', async () => {
    const { cells, grant, entries } = await begin();
    // Only timers take time here, so that it is never over between a conflict and the look at what was there instead.
    let nowMs = 0;
    const clock: Clock = {
      monotonicMs: () => nowMs,
      wallMs: () => systemClock.wallMs(),
      wallUs: () => systemClock.wallUs(),
      uptimeMs: () => systemClock.uptimeMs(),
      setTimer: (delayMs, fire, options) => {
        const fired = (): void => {
          nowMs += delayMs;
          fire();
        };
        return systemClock.setTimer(delayMs, fired, options);
      },
    };
    const fence = fenceOver(cells, timeout, clock);
    cells.onRequest = () => {
      const now = cells.cell(grant.resource);
      cells.put(grant.resource, nextCell(now, { ...grant, value: [...(now?.value ?? []), 'faster'] }));
    };
    const write = fence.write(grant, (tx) => append(tx, 'mine'));
    expect(await within(write)).toMatchObject({ code: 'FENCE_UNAVAILABLE', outcome: 'not-written' });
    expect(entries()).not.toContain('mine');
  });

  test('the time of a body does not count', async () => {
    const { fence, grant, entries } = await begin(timeout);
    await fence.write(grant, async (tx) => {
      await new Promise((resolve) => setTimeout(resolve, timeout + 100));
      append(tx, 'slow');
    });
    expect(entries()).toEqual(['slow']);
  });

  test('the signal of a request is aborted when nobody waits for it any more', async () => {
    const { cells, grant } = await begin();
    const signals: AbortSignal[] = [];
    const fence = conditionalFence<readonly string[]>({
      atomic: true,
      read: (resource) => cells.read(resource),
      compareAndSet: (_resource, _version, _cell, signal) => {
        signals.push(signal);
        return new Promise(() => {});
      },
      timeout,
    });
    await within(fence.write(grant, (tx) => append(tx, 'mine')));
    expect(signals.length).toBeGreaterThan(0);
    expect(signals.every((signal) => signal.aborted)).toBe(true);
  });
});

test('a body that is asked again sees the fresh value, and only its last run counts', async () => {
  const { fence, grant, sibling, entries } = await begin();
  const seen: number[] = [];
  const interfere = once(() => sibling('sibling'));
  const result = await fence.write(grant, async (tx) => {
    seen.push(tx.value?.length ?? 0);
    await interfere();
    append(tx, `run ${seen.length}`);
    return seen.length;
  });
  expect(result).toBe(2);
  expect(seen).toEqual([2, 3]);
  expect(entries()).toEqual(['sibling', 'run 2']);
});

describe('a body that never settles', () => {
  test('does not keep the writes of the same lease for ever: they are not written, for certain', async () => {
    const { fence, grant, write, entries } = await begin(300);
    let end = (): void => {};
    const stuck = fence.write(grant, async (tx) => {
      await new Promise<void>((resolve) => (end = resolve));
      append(tx, 'stuck');
    });
    const error = await failure(write());
    expect(error).toMatchObject({ code: 'FENCE_UNAVAILABLE', outcome: 'not-written' });
    expect(error.message).toContain('another write of this lease is still in its body');
    end();
    await stuck;
    await write();
    expect(entries()).toEqual(['stuck', 'mine']);
  });
});

describe('what is thrown and cannot be looked at', () => {
  test.each(unreadable)('by the place is no answer: %s', async (_, make) => {
    const place = { atomic: true, timeout: 50, read: async () => null, compareAndSet: async () => false };
    const throws = (): never => {
      throw make();
    };
    const read = conditionalFence({ ...place, read: throws });
    expect(await failure(read.activate(grantOn('test/x')))).toMatchObject({
      ...{ code: 'FENCE_UNAVAILABLE', outcome: 'not-written' },
    });
    const set = conditionalFence({ ...place, compareAndSet: throws });
    expect(await failure(set.activate(grantOn('test/x')))).toMatchObject({ code: 'FENCE_UNAVAILABLE' });
  });

  test.each(unreadable)('by the body comes out as it is: %s', async (_, make) => {
    const { fence, grant } = await begin();
    const thrown = make();
    const { itself } = await thrownBy(() =>
      fence.write(grant, () => {
        throw thrown;
      }),
    );
    expect(Object.is(itself, thrown)).toBe(true);
  });
});
