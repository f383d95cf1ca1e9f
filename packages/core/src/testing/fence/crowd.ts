import { expect } from 'vitest';

import { LeaseholdError, type StaleTokenError } from '../../errors.ts';
import type { Grant } from '../../fence/fence.ts';
import { newLeaseId, yieldOnce } from '../unique.ts';
import { withSeed, type Chance } from './chance.ts';
import type { FenceCase, FenceContext } from './context.ts';

const GRANTS = 12;
/** So many of them act at the same time. */
const LANES = 4;
const ROUNDS = 4;

/** How much of the log there was when a grant had been admitted, or everything up to a token shut out. */
interface Seen {
  readonly length: number;
  /** Of what comes after, none may have a lower token. */
  readonly fencingToken: number;
}

/** One grant among many: how it fares, and what of it was accepted. */
class Member {
  readonly grant: Grant;
  readonly accepted: string[] = [];
  isOut = false;
  readonly #context: FenceContext<unknown>;
  readonly #seen: Seen[];
  /** Of its own: what it chooses does not depend on what the others do meanwhile. */
  readonly #chance: Chance;

  constructor(grant: Grant, context: FenceContext<unknown>, seen: Seen[], chance: Chance) {
    this.grant = grant;
    this.#context = context;
    this.#seen = seen;
    this.#chance = chance;
  }

  async act(): Promise<void> {
    await pause(this.#chance);
    if (!(await this.#does(() => this.#context.fence.activate(this.grant)))) return;
    const { length } = await this.#context.entries();
    this.#seen.push({ length, fencingToken: this.grant.fencingToken });
    for (let writes = 1 + this.#chance.below(4); writes > 0; writes--) {
      await pause(this.#chance);
      await this.write(1 + this.#chance.below(2));
    }
  }

  async write(count: number): Promise<void> {
    const entries = Array.from({ length: count }, () => newEntry(this.grant));
    const body = async (tx: unknown): Promise<void> => {
      for (const entry of entries) {
        await this.#context.subject.append(tx, this.#context.resource, entry);
        for (let left = this.#chance.below(3); left > 0; left--) await yieldOnce();
      }
    };
    if (await this.#does(() => this.#context.fence.write(this.grant, body))) this.accepted.push(...entries);
  }

  /** Whether it was admitted. Nothing but a refusal may go wrong, and who was refused once is out for ever. */
  async #does(work: () => Promise<unknown>): Promise<boolean> {
    try {
      await work();
    } catch (error) {
      if (!LeaseholdError.is(error, 'STALE_TOKEN')) throw error;
      const { highest } = error as StaleTokenError;
      const { fencingToken, leaseId } = this.grant;
      expect(highest.fencingToken, 'the highest that a refusal tells').toBeGreaterThanOrEqual(fencingToken);
      expect(highest, 'the highest that a refusal tells').not.toEqual({ fencingToken, leaseId });
      this.isOut = true;
      return false;
    }
    expect(this.isOut, 'admitted after it was refused').toBe(false);
    return true;
  }
}

let written = 0;

/** `<token> <leaseId> <number>` */
function newEntry({ fencingToken, leaseId }: Grant): string {
  written++;
  return `${fencingToken} ${leaseId} ${written}`;
}

async function pause(chance: Chance): Promise<void> {
  for (let left = chance.below(8); left > 0; left--) await yieldOnce();
}

/** In the order of their tokens; some have the same, as after a loss of the store's data, but not the last one. */
async function drawGrants(context: FenceContext<unknown>, chance: Chance): Promise<Grant[]> {
  const grants: Grant[] = [];
  for (let each = 0; each < GRANTS; each++) {
    const before = grants.at(-1);
    const isTwin = before !== undefined && each < GRANTS - 1 && chance.below(4) === 0;
    grants.push(isTwin ? { ...before, leaseId: newLeaseId() } : await context.grant());
  }
  return grants;
}

/** Almost in their order, so that there is something to be deposed, and each grant may come before some of those before it. */
function nearlySorted<T>(list: readonly T[], chance: Chance): T[] {
  const places = list.map((each, index) => ({ each, place: index + chance.below(LANES + 1) }));
  return places.toSorted((a, b) => a.place - b.place).map(({ each }) => each);
}

/** Each grant activates and writes, several at a time; one more hand seals; and in the end all try once more. */
async function crowd(contexts: readonly FenceContext<unknown>[], chance: Chance): Promise<void> {
  const [context] = contexts;
  if (context === undefined) return;
  const accepted: string[] = [];
  for (let round = 0; round < ROUNDS; round++) {
    const seen: Seen[] = [];
    const grants = await drawGrants(context, chance);
    const members = grants.map((grant) => new Member(grant, chance.of(contexts), seen, chance.branch()));
    const seal = sealing(context, chance.of(grants.slice(0, GRANTS / 2)), seen, chance.branch());
    const waiting = nearlySorted(members, chance);
    const lane = async (): Promise<void> => {
      for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) await next.act();
    };
    await Promise.all([...Array.from({ length: LANES }, lane), seal]);
    for (const member of members) await member.write(1);

    const log = await context.entries();
    accepted.push(...members.flatMap((member) => member.accepted));
    expect(log.toSorted(), 'what is there is what was accepted').toEqual(accepted.toSorted());
    checkRuns(log);
    for (const { length, fencingToken } of seen) {
      const late = log.slice(length).filter((entry) => tokenOf(entry) < fencingToken);
      expect(late, `below ${fencingToken}, though that had been let in`).toEqual([]);
    }
    const latest = members.at(-1);
    expect(latest?.isOut, 'the latest grant was refused').toBe(false);
    const { fencingToken, leaseId } = latest?.grant ?? {};
    expect(await context.fence.highest(context.resource)).toEqual({ fencingToken, leaseId });
  }
}

async function sealing(
  context: FenceContext<unknown>,
  { fencingToken }: Grant,
  seen: Seen[],
  chance: Chance,
): Promise<void> {
  for (let left = 4; left > 0; left--) await pause(chance);
  await context.fence.seal(context.resource, fencingToken);
  const { length } = await context.entries();
  seen.push({ length, fencingToken: fencingToken + 1 });
}

function tokenOf(entry: string): number {
  return Number(entry.split(' ')[0]);
}

/** What was accepted of each grant is one unbroken run, and their tokens grow. */
function checkRuns(log: readonly string[]): void {
  const runs: string[] = [];
  for (const entry of log) {
    const [token = '', leaseId = ''] = entry.split(' ');
    if (runs.at(-1) !== `${token} ${leaseId}`) runs.push(`${token} ${leaseId}`);
  }
  expect(new Set(runs).size, `the runs ${runs.join(', ')} are unbroken`).toBe(runs.length);
  const tokens = runs.map(tokenOf);
  expect(tokens, 'tokens grow').toEqual([...new Set(tokens)].toSorted((a, b) => a - b));
}

/** Two that are first on a fresh resource at the same time: the later is admitted, whatever the order. */
async function firstAtOnce(contexts: readonly FenceContext<unknown>[]): Promise<void> {
  const [context] = contexts;
  if (context === undefined) return;
  const other = contexts.at(-1) ?? context;
  for (let round = 0; round < 8; round++) {
    const own = context.of(`${context.resource}/${round}`);
    const [earlier, later] = [await own.grant(), await own.grant()];
    const twin = { ...later, leaseId: newLeaseId() };
    const rivals = round % 2 === 0 ? [later, earlier] : [later, twin];
    if (round % 4 > 1) rivals.reverse();
    const results = await Promise.allSettled(
      rivals.map((grant, index) => (index === 0 ? own.fence : other.fence).activate(grant)),
    );
    const highest = await own.fence.highest(own.resource);
    const admitted = rivals.find(({ leaseId }) => leaseId === highest?.leaseId);
    if (round % 2 === 0) expect(admitted).toEqual(later);
    if (admitted === undefined) throw new Error('neither of them got in');
    for (const [index, result] of results.entries()) {
      const rival = rivals[index];
      // The earlier one may have been quick enough to be let in first.
      if (result.status === 'fulfilled') expect([admitted, earlier], 'let in').toContain(rival);
      else await own.stale(Promise.reject(result.reason as Error), admitted);
      if (rival === admitted) expect(result.status, 'the one that got in was told so').toBe('fulfilled');
    }
    for (const rival of rivals) {
      if (rival === admitted) await own.append(rival, 'in');
      else await own.stale(own.append(rival, 'out'), admitted);
    }
    expect(await own.entries()).toEqual(['in']);
  }
}

/** A seal and an activation at the same time: whichever is first, in the end the higher of the two holds. */
async function sealAtOnce(contexts: readonly FenceContext<unknown>[]): Promise<void> {
  const [context] = contexts;
  if (context === undefined) return;
  const other = contexts.at(-1) ?? context;
  for (let round = 0; round < 8; round++) {
    const own = context.of(`${context.resource}/${round}`);
    const [sealed, later] = [await own.grant(), await own.grant()];
    const isSealed = round % 2 === 0;
    const grant = isSealed ? sealed : later;
    const both = [() => other.fence.seal(own.resource, sealed.fencingToken), () => own.fence.activate(grant)];
    if (round % 4 > 1) both.reverse();
    const results = await Promise.allSettled(both.map((work) => work()));
    const mark = { fencingToken: grant.fencingToken, leaseId: isSealed ? null : grant.leaseId };
    expect(await own.fence.highest(own.resource)).toEqual(mark);
    for (const result of results) {
      if (result.status === 'fulfilled') continue;
      expect(isSealed, 'a grant above the seal was refused').toBe(true);
      await own.stale(Promise.reject(result.reason as Error), mark);
    }
    if (isSealed) await own.stale(own.append(grant, 'sealed'), mark);
    else await own.append(grant, 'later');
    expect(await own.entries()).toEqual(isSealed ? [] : ['later']);
  }
}

type Together = (contexts: readonly FenceContext<unknown>[]) => Promise<void>;

/** Over one fence, and over two before the same data. */
function inBothWays(name: string, together: Together): readonly FenceCase[] {
  return [
    { name, needs: [], run: (context) => together([context]) },
    {
      name: `${name}, over two fences`,
      needs: ['second'],
      run: async (context) => together([context, await context.second()]),
    },
  ];
}

/** Many at once, in every order. */
export const crowdCases: readonly FenceCase[] = [
  ...inBothWays('of two grants that are the first at the same time, the later one gets in', firstAtOnce),
  ...inBothWays('of a seal and an activation at the same time, the higher one holds in the end', sealAtOnce),
  ...inBothWays('of many grants in random order, the accepted writes of each are one unbroken run', (contexts) =>
    withSeed((chance) => crowd(contexts, chance)),
  ),
];
