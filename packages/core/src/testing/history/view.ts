import type { Act, FenceRow, GrantRow, History, HistoryLine } from './history.ts';
import type { Settings } from './options.ts';

/** A call with its answer, if there was one. */
export interface Call {
  readonly invoke: HistoryLine;
  readonly end: HistoryLine | undefined;
}

/** From when to when a fault was there. */
export interface Nemesis {
  readonly begin: HistoryLine;
  readonly end: HistoryLine | undefined;
  readonly fromMs: number;
  readonly untilMs: number;
}

/**
 * One leaseId as the process saw it that asked for it; of a lease that may linger, one of those who have it there in turn,
 * each with a token of its own.
 */
export interface Tenancy {
  readonly leaseId: string;
  readonly resource: string;
  readonly process: string;
  /** Its `acquire` or `adopt` that was answered with a lease, the first one. */
  readonly granted: Call & { readonly end: HistoryLine };
  readonly fencingToken: number;
  /** The last token that the store has reserved with the leaseId. */
  readonly lastToken: number;
  /** The answer of the store, or, of who has it after another, the first line with its token. */
  readonly begins: HistoryLine;
  /** What its process did with it, and said of it. */
  readonly lines: readonly HistoryLine[];
  /** Answers that let it trust the lease, in the order in which they came. */
  readonly confirmations: readonly (Call & { readonly end: HistoryLine })[];
  /** The first line after which it no longer was its own. */
  readonly terminal: HistoryLine | undefined;
}

/** Which line comes first. Those of one instant are told apart within a process only. */
export function inTime(a: HistoryLine, b: HistoryLine): number {
  return a.atMs - b.atMs || a.seq - b.seq;
}

/** A history in the orders in which the rules look at it. */
export class View {
  readonly lines: readonly HistoryLine[];
  readonly calls: readonly Call[];
  /** Each fence, each resource, in the order of its rows. */
  readonly rows: ReadonlyMap<string, readonly FenceRow[]>;
  readonly grants: readonly GrantRow[];
  readonly nemeses: readonly Nemesis[];
  readonly endMs: number;
  readonly settings: Settings;
  readonly #byLease: ReadonlyMap<string, readonly HistoryLine[]>;
  readonly #byAct: ReadonlyMap<Act, readonly Call[]>;
  readonly #died: ReadonlyMap<string, HistoryLine>;
  readonly #tenancies: ReadonlyMap<string, readonly [Tenancy, ...Tenancy[]]>;

  constructor(history: History, settings: Settings) {
    this.settings = settings;
    this.endMs = history.endMs;
    this.lines = [...history.lines].sort(inTime);
    this.calls = callsOf(this.lines);
    this.rows = groupBy(
      [...history.fences].sort((a, b) => a.order - b.order),
      ({ fence, resource }) => `${fence} ${resource}`,
    );
    this.grants = [...history.grants].sort((a, b) => a.order - b.order);
    this.nemeses = this.of('nemesis', callsOf(this.lines)).map(({ invoke, end }) => ({
      begin: invoke,
      end,
      fromMs: invoke.atMs,
      untilMs: end?.atMs ?? history.endMs,
    }));
    this.#byLease = groupBy(
      this.lines.filter(({ leaseId }) => leaseId !== undefined),
      ({ leaseId }) => leaseId ?? '',
    );
    this.#byAct = groupBy(this.calls, ({ invoke }) => invoke.act);
    this.#died = new Map(this.lines.filter(({ act }) => act === 'died').map((line) => [line.process, line]));
    this.#tenancies = this.#tenanciesOf();
  }

  callsTo(act: Act): readonly Call[] {
    return this.#byAct.get(act) ?? [];
  }

  linesOf(leaseId: string): readonly HistoryLine[] {
    return this.#byLease.get(leaseId) ?? [];
  }

  /** Leases that a process was given, in no order. */
  get tenancies(): readonly Tenancy[] {
    return [...this.#tenancies.values()].flat();
  }

  /** Of each leaseId the one that it was granted to. */
  get leases(): readonly Tenancy[] {
    return [...this.#tenancies.values()].map(([first]) => first);
  }

  /** Those who had it, in turn: more than one only of a lease that lingered. */
  holdersOf(leaseId: string): readonly Tenancy[] {
    return this.#tenancies.get(leaseId) ?? [];
  }

  /** Of those who had it the one with that token, and otherwise the first. */
  tenancy(leaseId: string, fencingToken?: number): Tenancy | undefined {
    const holders = this.holdersOf(leaseId);
    return holders.find((each) => each.fencingToken === fencingToken) ?? holders[0];
  }

  died(process: string): HistoryLine | undefined {
    return this.#died.get(process);
  }

  /** Faults of that kind. One that had no effect excuses nothing. */
  struck(...kinds: readonly string[]): readonly Nemesis[] {
    return this.nemeses.filter(({ begin, end }) => kinds.includes(begin.nemesis ?? '') && end?.effect !== 0);
  }

  /** After this instant nothing is wrong any more, as far as the history tells. */
  get healedMs(): number {
    return this.nemeses.reduce((latest, { untilMs }) => Math.max(latest, untilMs), this.settings.healedMs ?? 0);
  }

  /** For how long a confirmation lets its owner trust the lease. */
  deadlineOf({ invoke, end }: Call & { readonly end: HistoryLine }): number {
    const ttlMs = invoke.ttlMs ?? 0;
    const remainingMs = Math.min(ttlMs, end.remainingMs ?? ttlMs);
    return (end.sentMs ?? invoke.atMs) + this.settings.trustMs(remainingMs, ttlMs);
  }

  /** Until when its owner trusted the lease: it ended, or its window closed with no confirmation in time. */
  beliefEndsMs({ confirmations, terminal, process }: Tenancy): number {
    let deadlineMs = -Infinity;
    for (const confirmation of confirmations) {
      if (deadlineMs !== -Infinity && confirmation.end.atMs > deadlineMs) break;
      deadlineMs = Math.max(deadlineMs, this.deadlineOf(confirmation));
    }
    return Math.min(deadlineMs, terminal?.atMs ?? Infinity, this.died(process)?.atMs ?? Infinity);
  }

  of(act: Act, calls: readonly Call[] = this.calls): readonly Call[] {
    return calls.filter(({ invoke }) => invoke.act === act);
  }

  #tenanciesOf(): Map<string, readonly [Tenancy, ...Tenancy[]]> {
    const tenancies = new Map<string, readonly [Tenancy, ...Tenancy[]]>();
    const confirmed = this.calls.filter(isConfirmation).sort((a, b) => inTime(a.end, b.end));
    const byLease = groupBy(confirmed, ({ invoke }) => invoke.leaseId ?? '');
    // A lease of its own that a fence has refused is over for its process when it asks for another one in its place.
    const replacing = groupBy(
      this.callsTo('acquire').filter(({ invoke }) => invoke.from !== undefined),
      ({ invoke }) => invoke.from ?? '',
    );
    for (const [leaseId, confirmations] of byLease) {
      const granted = confirmations.find(({ invoke }) => invoke.act !== 'extend');
      if (granted === undefined) continue;
      const { process, resource = '' } = granted.invoke;
      const replaced = replacing.get(leaseId)?.map(({ invoke }) => invoke) ?? [];
      const lines = this.linesOf(leaseId).filter((line) => line.process === process);
      const own = replaced.length === 0 ? lines : [...lines, ...replaced].sort(inTime);
      const isTerminal = (line: HistoryLine): boolean => line.from === leaseId || isEnd(line);
      const { fencingToken = 0, spareTokens = 0 } = granted.end;
      const lastToken = fencingToken + spareTokens;
      const about = {
        ...{ leaseId, process, resource, granted, lastToken },
        confirmations: confirmations.filter(({ invoke }) => invoke.process === process),
      };
      if (spareTokens === 0) {
        const terminal = own.find(isTerminal);
        tenancies.set(leaseId, [{ ...about, fencingToken, begins: granted.end, lines: own, terminal }]);
        continue;
      }
      const [first, ...others] = inTurn(own, fencingToken, lastToken).map((part): Tenancy => ({
        ...about,
        fencingToken: part.token,
        begins: part.token === fencingToken ? granted.end : (part.lines[0] ?? granted.end),
        lines: part.lines,
        // Kept for the next one, it is over for this one without a word to the store.
        terminal: part.lines.find((line) => isTerminal(line) || line.act === 'released'),
      }));
      if (first !== undefined) tenancies.set(leaseId, [first, ...others]);
    }
    return tenancies;
  }
}

function isConfirmation(call: Call): call is Call & { readonly end: HistoryLine } {
  const { act } = call.invoke;
  return (act === 'acquire' || act === 'adopt' || act === 'extend') && call.end?.phase === 'ok';
}

interface Turn {
  readonly token: number;
  readonly lines: HistoryLine[];
}

/** By whose token they name, and those without one by whose turn it is. */
function inTurn(lines: readonly HistoryLine[], first: number, last: number): readonly Turn[] {
  let turn: Turn = { token: first, lines: [] };
  const turns = [turn];
  for (const line of lines) {
    const { fencingToken: token = turn.token } = line;
    if (token > turn.token && token <= last) {
      turn = { token, lines: [] };
      turns.push(turn);
    }
    (turns.find((each) => each.token === token) ?? turn).lines.push(line);
  }
  return turns;
}

/** From here on the process no longer has the lease, or says so. */
function isEnd({ act, phase }: HistoryLine): boolean {
  if (act === 'lost' || act === 'handed-over') return true;
  return (act === 'release' || act === 'cancel') && phase === 'invoke';
}

function callsOf(lines: readonly HistoryLine[]): readonly Call[] {
  const calls = new Map<string, { readonly invoke: HistoryLine; end: HistoryLine | undefined }>();
  for (const line of lines) {
    if (line.call === undefined) continue;
    const name = `${line.process} ${line.call}`;
    if (line.phase === 'invoke') calls.set(name, { invoke: line, end: undefined });
    else {
      const call = calls.get(name);
      if (call !== undefined) call.end ??= line;
    }
  }
  return [...calls.values()];
}

export function groupBy<T, K>(items: readonly T[], keyOf: (item: T) => K): Map<K, T[]> {
  const groups = new Map<K, T[]>();
  for (const item of items) {
    const key = keyOf(item);
    const group = groups.get(key);
    if (group === undefined) groups.set(key, [item]);
    else group.push(item);
  }
  return groups;
}
