import { UnsafeReleaseError, type Fence } from '@leasehold/core';
import { diagnose, seal, type ReleaseStep } from '@leasehold/core/diagnosis';
import { postgresFence } from '@leasehold/core/postgres';
import { describe, expect, inject, test } from 'vitest';

import { connectPool, createSite } from '../postgres/support.ts';
import { incident, type Incident } from './release-support.ts';

/** The fence, but for a call that does as is said instead. */
function but(fence: Fence, name: string, instead: Partial<Fence>): Fence {
  return {
    name,
    enforcing: true,
    activate: (grant) => fence.activate(grant),
    write: (grant, body) => fence.write(grant, body),
    seal: (resource, token) => fence.seal(resource, token),
    highest: (resource) => fence.highest(resource),
    ...instead,
  };
}

function errorOf(work: Promise<unknown>): Promise<unknown> {
  return work.then(
    (value) => ({ noError: value }),
    (error: unknown) => error,
  );
}

async function sealedAt({ ledger, operator }: Incident, resource: string): Promise<string | null> {
  const highest = await ledger.highest(`${operator.namespace}/${resource}`);
  return highest?.leaseId ?? null;
}

/** What holds whenever nothing was released. */
async function isUntouched({ operator }: Incident, resource: string, leaseId: string): Promise<void> {
  expect(await operator.inspect(resource)).toMatchObject({ leaseId, previous: null });
  const forced = (await operator.history(resource)).filter(({ event }) => event === 'forced');
  expect(forced).toEqual([]);
}

describe.concurrent('a release by force, of an owner that', () => {
  test('was killed: sealed first, released, the next owner is seen and the old one refused', async () => {
    await using here = await incident();
    const { leaseId, fencingToken } = await here.hold('r');
    await here.owner.kill9();
    await using site = await createSite(inject('postgresUrl'));
    await using pool = connectPool(site.url);
    const fences = [here.ledger, postgresFence(pool, { name: 'books' })];
    const steps: ReleaseStep[] = [];
    const next = { wanted: Promise.resolve<unknown>(undefined) };
    const result = await here.force('r', leaseId, {
      fences,
      operator: 'ann',
      reason: 'INC-4711',
      watchSuccessor: '5s',
      onStep: (step) => {
        steps.push(step);
        if (step === 'waiting for the next owner') next.wanted = here.operator.acquire('r', { wait: '5s', fences });
      },
    });
    expect(result).toMatchObject({ outcome: 'released', sealed: ['ledger', 'books'], reason: null });
    expect(result.plan.diagnosis).toMatchObject({ owner: { state: 'gone' }, verdict: { code: 'orphaned' } });
    const lease = (await next.wanted) as { leaseId: string; fencingToken: number };
    expect(result.aftermath).toMatchObject({
      successor: { leaseId: lease.leaseId, fencingToken: lease.fencingToken },
      refusedBy: ['ledger', 'books'],
      notRefusedBy: [],
    });
    expect(lease.fencingToken).toBeGreaterThan(result.plan.sealToken);
    expect(steps).toEqual([
      ...['watching', 'confirming', 'checking again', 'sealing', 'releasing', 'waiting for the next owner'],
    ]);
    const event = { resource: 'r', leaseId, fencingToken, operator: 'ann', reason: 'INC-4711' };
    expect(here.told).toEqual([{ ...event, outcome: 'released', sealed: ['ledger', 'books'] }]);
    const history = await here.operator.history('r');
    expect(history.find(({ event }) => event === 'forced')).toMatchObject({ fencingToken, detail: 'ann: INC-4711' });
  });

  test.each(['lives', 'is stopped'])('%s: refused, told, nothing sealed', async (how) => {
    await using here = await incident();
    const { leaseId, fencingToken } = await here.hold('r');
    if (how === 'is stopped') await here.owner.stop();
    // Not by the unfenced form either.
    for (const rest of [{}, { fences: [], acceptDoubleExecution: `r#${fencingToken}` }]) {
      const error = await errorOf(here.force('r', leaseId, rest));
      expect(error).toBeInstanceOf(UnsafeReleaseError);
      expect((error as UnsafeReleaseError).missing.join()).toMatch(/process is (alive|stopped)/);
    }
    expect(await sealedAt(here, 'r')).toBe(leaseId);
    expect(here.told.map(({ outcome, sealed }) => ({ outcome, sealed }))).toEqual([
      { outcome: 'refused', sealed: [] },
      { outcome: 'refused', sealed: [] },
    ]);
    await isUntouched(here, 'r', leaseId);
    if (how === 'lives') expect(await here.operator.inspect('r')).toMatchObject({ state: 'held' });
  });

  test('cannot be verified: released where a fence is sealed; without one only by the very words', async () => {
    await using here = await incident();
    const one = await here.hold('fenced');
    const two = await here.hold('unfenced');
    await here.owner.kill9();
    const [fenced, unaccepted, mistyped] = await Promise.all([
      here.force('fenced', one.leaseId, { probes: [] }),
      errorOf(here.force('unfenced', two.leaseId, { probes: [], fences: [] })),
      errorOf(
        here.force('unfenced', two.leaseId, {
          ...{ probes: [], fences: [], acceptDoubleExecution: `unfenced#${two.fencingToken + 1}` },
        }),
      ),
    ]);
    expect(fenced).toMatchObject({ outcome: 'released', plan: { diagnosis: { verdict: { code: 'stale-suspect' } } } });
    const missing = [expect.stringContaining(`acceptDoubleExecution 'unfenced#${two.fencingToken}'`)];
    expect(unaccepted).toMatchObject({ code: 'UNSAFE_RELEASE', missing });
    expect(mistyped).toMatchObject({ code: 'UNSAFE_RELEASE', missing });
    await isUntouched(here, 'unfenced', two.leaseId);
    const released = await here.force('unfenced', two.leaseId, {
      ...{ probes: [], fences: [], acceptDoubleExecution: `unfenced#${two.fencingToken}` },
    });
    expect(released).toMatchObject({ outcome: 'released', sealed: [], plan: { isUnfenced: true } });
    const [last] = await here.operator.history('unfenced');
    expect(last?.detail).toContain('two owners may act');
  });
});

describe.concurrent('a release by force, while', () => {
  test('two operators do the same: one releases, the other is told that it has changed', async () => {
    await using here = await incident();
    const { leaseId } = await here.hold('r');
    await here.owner.kill9();
    const results = await Promise.all([
      here.force('r', leaseId, { operator: 'ann' }),
      here.force('r', leaseId, { operator: 'bob' }),
    ]);
    const outcomes = results.map(({ outcome, reason }) => `${outcome} ${reason ?? ''}`.trim());
    expect(outcomes.toSorted()).toEqual([expect.stringMatching(/^changed (force-released|released)$/), 'released']);
    const forced = (await here.operator.history('r')).filter(({ event }) => event === 'forced');
    expect(forced).toHaveLength(1);
  });

  test('it is acquired between plan and release, or between seal and release: left alone, and the next owner admitted', async () => {
    await using here = await incident();
    const one = await here.hold('planned');
    const two = await here.hold('sealed');
    await here.owner.kill9();
    const acquire = (resource: string) => here.operator.acquire(resource, { wait: '2s', fences: [here.ledger] });
    const early = here.force('planned', one.leaseId, {
      confirm: async () => {
        await acquire('planned');
        return true;
      },
    });
    const late = here.force('sealed', two.leaseId, {
      fences: [
        but(here.ledger, 'ledger', {
          seal: async (resource, token) => {
            await here.ledger.seal(resource, token);
            await acquire('sealed');
          },
        }),
      ],
    });
    expect(await early).toMatchObject({ outcome: 'changed', reason: 'superseded', sealed: [] });
    expect(await late).toMatchObject({ outcome: 'changed', reason: 'superseded', sealed: ['ledger'] });
    for (const resource of ['planned', 'sealed']) {
      const held = here.operator.held().find((lease) => lease.resource === resource);
      expect(held).toMatchObject({ held: true });
      expect(await sealedAt(here, resource)).toBe(held?.leaseId);
    }
  });

  test('a fence cannot be reached, or fails while it is sealed: nothing is released, and what was sealed is told', async () => {
    await using here = await incident();
    const one = await here.hold('silent');
    const two = await here.hold('half');
    await here.owner.kill9();
    const down = async (): Promise<never> => {
      throw new Error('down');
    };
    const [silent, half] = await Promise.all([
      errorOf(
        here.force('silent', one.leaseId, { fences: [here.ledger, but(here.ledger, 'mail', { highest: down })] }),
      ),
      errorOf(here.force('half', two.leaseId, { fences: [here.ledger, but(here.ledger, 'mail', { seal: down })] })),
    ]);
    expect(silent).toMatchObject({ code: 'UNSAFE_RELEASE', missing: ['fence mail does not answer'], sealed: [] });
    expect(await sealedAt(here, 'silent')).toBe(one.leaseId);
    expect(half).toMatchObject({
      code: 'UNSAFE_RELEASE',
      sealed: ['ledger'],
      message: expect.stringContaining('down'),
    });
    expect(here.told.find(({ resource }) => resource === 'half')).toMatchObject({
      outcome: 'refused',
      sealed: ['ledger'],
    });
    await isUntouched(here, 'silent', one.leaseId);
    await isUntouched(here, 'half', two.leaseId);
    // And it can be tried again.
    expect(await here.force('half', two.leaseId)).toMatchObject({ outcome: 'released' });
  });

  test.each(['watching', 'confirming', 'checking again', 'sealing', 'releasing'] as const)(
    'it is aborted at "%s": nothing is released from before the seals on, and after them it says what was sealed',
    async (at) => {
      await using here = await incident();
      const { leaseId } = await here.hold('r');
      await here.owner.kill9();
      const end = new AbortController();
      const reason = new Error('Ctrl-C');
      const outcome = await errorOf(
        here.force('r', leaseId, {
          signal: end.signal,
          confirm: at === 'confirming' ? () => new Promise<boolean>(() => {}) : () => true,
          onStep: (step) => {
            // In the midst of the step.
            if (step === at) setImmediate(() => end.abort(reason));
          },
          fences: [
            but(here.ledger, 'ledger', {
              seal: async (resource, token) => {
                await new Promise((resolve) => setImmediate(resolve));
                await here.ledger.seal(resource, token);
              },
            }),
            but(here.ledger, 'mail', {}),
          ],
        }),
      );
      if (at === 'releasing') {
        // On its way: there is nothing to take back, so it is told as it is.
        expect(outcome).toMatchObject({ noError: { outcome: 'released' } });
        return;
      }
      if (at === 'sealing')
        expect(outcome).toMatchObject({ code: 'UNSAFE_RELEASE', sealed: ['ledger'], cause: reason });
      else {
        expect(outcome).toBe(reason);
        expect(await sealedAt(here, 'r')).toBe(leaseId);
      }
      await isUntouched(here, 'r', leaseId);
      expect(here.told.map(({ outcome }) => outcome)).toEqual([at === 'sealing' ? 'refused' : 'failed']);
    },
  );

  test('nobody wants it, or it is another lease by now: declined and refused', async () => {
    await using here = await incident();
    const { leaseId } = await here.hold('r');
    await here.owner.kill9();
    const [declined, other] = await Promise.all([
      here.force('r', leaseId, { confirm: () => false }),
      errorOf(here.force('r', 'of-yesterday')),
    ]);
    expect(declined).toMatchObject({ outcome: 'declined', sealed: [] });
    expect(other).toMatchObject({ code: 'UNSAFE_RELEASE', missing: [expect.stringContaining(leaseId)] });
    await isUntouched(here, 'r', leaseId);
  });

  test('an option is wrong: said before anything is asked', async () => {
    await using here = await incident();
    for (const [wrong, option] of [
      [{ reason: ' ' }, 'reason'],
      [{ fences: [{}] }, 'fences.0'],
      [{ watchSuccessor: '2h' }, 'watchSuccessor'],
      [{ force: true }, 'force'],
    ] as const) {
      const error = await errorOf(here.force('r', 'x', wrong as object));
      expect(error).toMatchObject({ code: 'CONFIG', option });
    }
    expect(here.told).toEqual([]);
  });
});

test('a seal shuts out an owner that lives, releases nothing, and the next owner is admitted', async () => {
  await using here = await incident();
  const { leaseId, fencingToken } = await here.hold('r');
  const result = await seal(here.operator, 'r', { fences: [here.ledger] });
  expect(result).toEqual({ sealToken: fencingToken + 1, sealed: ['ledger'], failure: null });
  const { verdict } = await diagnose(here.operator, 'r', { fences: [here.ledger] });
  expect(verdict).toMatchObject({ code: 'token-regressed', sentence: expect.stringContaining('sealed') });
  here.owner.send('do', { op: 'write', resource: 'r' });
  expect(await here.owner.next('wrote')).toMatchObject({ code: 'STALE_TOKEN' });
  expect(await here.operator.inspect('r')).toMatchObject({ leaseId, state: 'held' });
  await here.owner.kill9();
  await using next = await here.operator.acquire('r', { wait: '5s', fences: [here.ledger] });
  expect(next.fencingToken).toBeGreaterThan(result.sealToken);
});

const ROUNDS = process.env['LEASEHOLD_LONG'] === '1' ? 10_000 : 300;

test(
  `${ROUNDS} diagnoses of leases that live, under load, call none of them stale, and none may be released`,
  async () => {
    await using here = await incident(3000);
    const leases = await Promise.all(
      Array.from({ length: 10 }, async (_, at) => {
        await here.hold(`r${at}`);
        return `r${at}`;
      }),
    );
    const seen: Record<string, number> = {};
    let left = ROUNDS;
    const diagnoses = leases.map(async (resource, at) => {
      while (left-- > 0) {
        // Half of them watch, which ends with the next extension; and what the probe knows is not needed for it.
        const found = await diagnose(here.operator, resource, {
          observe: at % 2 === 0,
          probes: at < 5 ? [] : undefined,
        });
        const { code, allowed } = found.verdict;
        seen[code] = (seen[code] ?? 0) + 1;
        if (allowed.forceRelease.allowed || allowed.forceReleaseUnfenced.allowed)
          throw new Error(found.verdict.sentence);
      }
    });
    await Promise.all(diagnoses);
    const total = Object.values(seen).reduce((sum, each) => sum + each, 0);
    expect(total).toBe(ROUNDS);
    // `silent`: an extension that was late by a moment, on a machine that is busy.
    expect(Object.keys(seen).filter((code) => code !== 'held' && code !== 'silent')).toEqual([]);
    expect(seen['held']).toBeGreaterThan(ROUNDS / 2);
    expect(here.owner.unread.filter(({ type }) => type === 'aborted')).toEqual([]);
  },
  20_000 + ROUNDS * 20,
);
