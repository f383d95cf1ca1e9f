import { UnsafeReleaseError } from '@leasehold/core';
import { diagnose, seal, type ReleaseStep } from '@leasehold/core/diagnosis';
import { postgresFence } from '@leasehold/core/postgres';
import { describe, expect, inject, test } from 'vitest';

import { connectPool, createSite } from '../postgres/support.ts';
import { but, errorOf, incident, type Incident } from './release-support.ts';

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
      ...['watching', 'confirming', 'checking again', 'sealing', 'trying the old token', 'releasing'],
      'waiting for the next owner',
    ]);
    const event = { resource: 'r', leaseId, fencingToken, operator: 'ann', reason: 'INC-4711' };
    const { evidence } = result;
    expect(here.told).toEqual([{ ...event, outcome: 'released', sealed: ['ledger', 'books'], evidence }]);
    // On what it was decided, and what came of the seals: verdict, both clocks, owner, fences.
    expect(evidence).toMatch(
      new RegExp(
        `^orphaned, ran out \\d+\\.\\d s ago, unchanged for 1\\.\\d s, owner gone \\(same-host\\), ledger at ${fencingToken}, ` +
          `books knows nobody; sealed at ${result.plan.sealToken}, and the old token refused: ledger, books$`,
      ),
    );
    const history = await here.operator.history('r');
    expect(history.find(({ event }) => event === 'forced')).toMatchObject({
      fencingToken,
      detail: `ann: INC-4711 (${evidence})`,
    });
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

  test('a fence is sealed and admits the old token all the same: nothing is released, whoever is beside it', async () => {
    await using here = await incident();
    const one = await here.hold('admits');
    const two = await here.hold('silent');
    await here.owner.kill9();
    const broken = await Promise.all([
      errorOf(
        here.force('admits', one.leaseId, {
          fences: [here.ledger, but(here.ledger, 'mail', { seal: async () => {}, activate: async () => {} })],
        }),
      ),
      errorOf(
        here.force('silent', two.leaseId, {
          fences: [but(here.ledger, 'mail', { activate: async () => Promise.reject(new Error('down')) })],
        }),
      ),
    ]);
    for (const error of broken) {
      expect(error).toMatchObject({
        missing: [expect.stringMatching(/^the old token was tried, and not refused by mail/)],
      });
    }
    await isUntouched(here, 'admits', one.leaseId);
    await isUntouched(here, 'silent', two.leaseId);
    // That the fences are sealed has to be somewhere.
    const [noted] = await here.operator.history('admits');
    expect(noted).toMatchObject({ event: 'sealed', fencingToken: one.fencingToken + 1 });
    expect(noted?.detail).toMatch(/: drill \(ledger, mail; not released; orphaned, /);
  });

  test('it may take a fence that knows nobody of the resource only beside one that does', async () => {
    await using here = await incident();
    const { leaseId, fencingToken } = await here.hold('r');
    await here.owner.kill9();
    const stranger = but(here.ledger, 'mail', { highest: async () => null });
    const error = await errorOf(here.force('r', leaseId, { fences: [stranger] }));
    expect(error).toMatchObject({
      missing: expect.arrayContaining([expect.stringContaining("acceptDoubleExecution 'r#")]),
    });
    await isUntouched(here, 'r', leaseId);
    expect(await sealedAt(here, 'r')).toBe(leaseId);
    // The very words, as without any fence; it is sealed all the same.
    const accepted = { acceptDoubleExecution: `r#${fencingToken}` };
    const released = await here.force('r', leaseId, { fences: [stranger], ...accepted });
    expect(released).toMatchObject({ outcome: 'released', sealed: ['mail'], plan: { isUnfenced: true } });
  });

  test.each([
    ...['watching', 'confirming', 'checking again', 'sealing', 'trying the old token', 'releasing'],
    'waiting for the next owner',
  ] as const)(
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
          watchSuccessor: '30s',
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
      if (at === 'releasing' || at === 'waiting for the next owner') {
        // On its way, or done: there is nothing to take back, so it is told as it is.
        expect(outcome).toMatchObject({ noError: { outcome: 'released', aftermath: { successor: null } } });
        expect(here.told.map(({ outcome }) => outcome)).toEqual(['released']);
        return;
      }
      const isSealed = at === 'sealing' || at === 'trying the old token';
      const sealed = at === 'sealing' ? ['ledger'] : isSealed ? ['ledger', 'mail'] : [];
      if (isSealed) expect(outcome).toMatchObject({ code: 'UNSAFE_RELEASE', sealed, cause: reason });
      else {
        expect(outcome).toBe(reason);
        expect(await sealedAt(here, 'r')).toBe(leaseId);
      }
      await isUntouched(here, 'r', leaseId);
      expect(here.told).toMatchObject([
        { outcome: isSealed ? 'refused' : 'failed', sealed, operator: expect.any(String) },
      ]);
      const noted = (await here.operator.history('r')).map(({ event }) => event);
      expect(noted).toEqual(isSealed ? ['sealed'] : []);
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
  const sealedEvents: unknown[] = [];
  here.operator.on('sealed', (event) => sealedEvents.push(event));
  const result = await seal(here.operator, 'r', { fences: [here.ledger], operator: 'ann', reason: 'INC-4711' });
  expect(result).toEqual({ sealToken: fencingToken + 1, sealed: ['ledger'], failure: null, isLogged: true });
  const audit = { fencingToken: result.sealToken, operator: 'ann', reason: 'INC-4711' };
  expect(sealedEvents).toEqual([{ ...audit, resource: 'r', fences: ['ledger'], failed: null }]);
  const [noted] = await here.operator.history('r');
  expect(noted).toMatchObject({ event: 'sealed', owner: '', fencingToken: result.sealToken });
  expect(noted?.detail).toBe('ann: INC-4711 (ledger)');
  const { verdict } = await diagnose(here.operator, 'r', { fences: [here.ledger] });
  expect(verdict).toMatchObject({
    // As the log tells of it, it is no riddle.
    ...{ code: 'held', sentence: expect.stringContaining('It is shut out of ledger: sealed by hand') },
    // Its owner can still be asked to end: that needs no fence.
    allowed: { revoke: true, forceRelease: { allowed: false } },
  });
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
