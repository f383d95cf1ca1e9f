import { describe, expect, test } from 'vitest';

import { MemoryFence, type MemoryTx } from '../../src/fence/memory.ts';
import { ManualClock } from '../../src/testing/manual-clock.ts';

function setUp(): {
  fence: MemoryFence;
  grant: (leaseId: string) => { resource: string; fencingToken: number; leaseId: string };
} {
  const clock = new ManualClock();
  return {
    fence: new MemoryFence({ clock }),
    grant: (leaseId) => ({ resource: 'suite/reports', fencingToken: clock.wallUs(), leaseId }),
  };
}

describe('MemoryFence', () => {
  test('a body sees what is stored under its own changes, which are stored when it has settled', async () => {
    const { fence, grant } = setUp();
    const lease = grant('a');
    await fence.write(lease, (tx) => {
      tx.set('kept', 1);
      tx.set('deleted', 1);
    });
    await fence.write(lease, async (tx) => {
      tx.set('kept', 2);
      tx.set('new', undefined);
      tx.delete('deleted');
      expect([tx.get('kept'), tx.has('new'), tx.get('new'), tx.has('deleted'), tx.get('deleted')]).toEqual([
        ...[2, true, undefined, false, undefined],
      ]);
      expect([...fence.values]).toEqual([
        ['kept', 1],
        ['deleted', 1],
      ]);
    });
    expect([...fence.values]).toEqual([
      ['kept', 2],
      ['new', undefined],
    ]);
  });

  test('a newer grant does not wait for the open write of an older one, which then comes to nothing', async () => {
    const { fence, grant } = setUp();
    const [older, newer] = [grant('a'), grant('b')];
    let goOn = (): void => {};
    const pause = new Promise<void>((resolve) => (goOn = resolve));
    const stuck = fence.write(older, async (tx) => {
      tx.set('owner', 'a');
      await pause;
    });
    await fence.activate(newer);
    await fence.write(newer, (tx) => tx.set('owner', 'b'));
    goOn();
    await expect(stuck).rejects.toMatchObject({ code: 'STALE_TOKEN', highest: { leaseId: 'b' } });
    expect(fence.values.get('owner')).toBe('b');
  });

  test('a body that never settles does not keep its siblings for ever, nor lets them in beside it', async () => {
    const clock = new ManualClock();
    const fence = new MemoryFence({ clock });
    const lease = { resource: 'suite/reports', fencingToken: clock.wallUs(), leaseId: 'a' };
    let end = (): void => {};
    const stuck = fence.write(lease, async (tx) => {
      await new Promise<void>((resolve) => (end = resolve));
      tx.set('stuck', 1);
    });
    const ran: string[] = [];
    const waiting = [1, 2].map((which) => fence.write(lease, () => void ran.push(`sibling ${which}`)));
    const settled = Promise.allSettled(waiting);
    await clock.advanceAsync(4999);
    // One that came later waits for the first as well, although those before it have left.
    const late = fence.write(lease, () => void ran.push('late'));
    await clock.advanceAsync(1);
    for (const each of await settled) {
      expect(each).toMatchObject({ reason: { code: 'FENCE_UNAVAILABLE', outcome: 'not-written' } });
      expect((each as PromiseRejectedResult).reason.message).toContain(
        'another write of this lease is still in its body',
      );
    }
    expect(ran).toEqual([]);
    end();
    await Promise.all([stuck, late]);
    expect(ran).toEqual(['late']);
    expect(fence.values.get('stuck')).toBe(1);
  });

  test('a tx that outlives its write is refused', async () => {
    const { fence, grant } = setUp();
    let kept: MemoryTx | undefined;
    await fence.write(grant('a'), (tx) => {
      kept = tx;
    });
    expect(() => kept?.set('late', 1)).toThrow('this write is over');
    expect(() => kept?.get('late')).toThrow('this write is over');
    expect(fence.values.size).toBe(0);
  });

  test('a seal takes a token', async () => {
    const { fence } = setUp();
    for (const wrong of [0, -1, 1.5, Number.NaN, '5']) {
      await expect(fence.seal('suite/reports', wrong as number)).rejects.toMatchObject({ code: 'CONFIG' });
    }
    expect(await fence.highest('suite/reports')).toBeNull();
  });
});
