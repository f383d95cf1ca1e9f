import { metBy, stoppedMs } from './excuse.ts';
import type { Breach, Invariant } from './finding.ts';
import type { HistoryLine } from './history.ts';
import { groupBy, type Call, type View } from './view.ts';

/** What becomes of requests that had no answer. */

/** Who has no answer asks again after this, at the latest. */
const LONGEST_PAUSE_MS = 1000;
/** Whoever takes something back tries again after a pause that is at most as long as all before it together, and this. */
const FIRST_PAUSE_MS = 100;
const LONGEST_RETRY_MS = 5000;
/** So long a packet may still come: until then it is tried. */
const TRIED_FOR_MS = 60_000;

export const unansweredIsTakenBack: Invariant = {
  id: 'L9',
  rule: 'what had no answer is taken back, again and again, until the store has confirmed it or it no longer matters',
  breaches(view) {
    const byOwner = groupBy(
      view.calls.filter(({ invoke }) => OF_LEASE.has(invoke.act)),
      ({ invoke }) => `${invoke.process} ${invoke.leaseId}`,
    );
    const answered = groupBy(
      view.calls.filter(({ invoke, end }) => OF_LEASE.has(invoke.act) && end !== undefined && !isUnanswered(end)),
      ({ invoke }) => invoke.process,
    );
    return [...byOwner.values()].flatMap((calls) => {
      const [first] = calls;
      if (first === undefined) return [];
      const reached = answered.get(first.invoke.process) ?? [];
      return [...ghosts(view, calls, reached), ...releases(view, calls, reached)];
    });
  },
};

const OF_LEASE: ReadonlySet<string> = new Set(['acquire', 'adopt', 'extend', 'release', 'cancel']);

/** Not known, or never sent. */
function isUnanswered({ phase, outcome }: HistoryLine): boolean {
  return phase === 'info' || (phase === 'fail' && outcome === 'STORE_UNAVAILABLE');
}

/** An acquisition of which a request had no answer, and that came to nothing, or is over. */
function ghosts(view: View, calls: readonly Call[], reached: readonly Call[]): readonly Breach[] {
  const requests = calls.filter(({ invoke }) => invoke.act === 'acquire' || invoke.act === 'adopt');
  const last = requests.at(-1);
  const unanswered = requests.find(({ end }) => end?.phase === 'info');
  const isHandedOver = view.linesOf(last?.invoke.leaseId ?? '').some(({ act }) => act === 'handed-over');
  if (last?.end === undefined || unanswered === undefined || isHandedOver) return [];
  // There is nothing to adopt, and there will be nothing.
  if (last.invoke.act === 'adopt' && last.end.phase === 'fail' && !isUnanswered(last.end)) return [];
  const { slackMs } = view.settings;
  const isGiven = requests.some(({ end }) => end?.phase === 'ok');
  const over = calls.findLast(({ invoke, end }) => invoke.act === 'release' && end !== undefined && !isUnanswered(end));
  const from = isGiven ? over?.end : last.end;
  if (from === undefined) return [];
  const cancels = calls.filter(({ invoke }) => invoke.act === 'cancel');
  const { waitRefreshMs = 0, timeoutMs = 0 } = last.invoke;
  const pauseMs = isGiven ? 0 : Math.max(LONGEST_PAUSE_MS, waitRefreshMs) + timeoutMs;
  const dueMs = from.atMs + pauseMs * (1 + view.settings.clockDrift) + slackMs;
  const shown = [unanswered.invoke, ...(unanswered.end === undefined ? [] : [unanswered.end]), from];
  return untried(view, { cancels, reached, dueMs, forMs: TRIED_FOR_MS, shown });
}

/** A release without an answer. */
function releases(view: View, calls: readonly Call[], reached: readonly Call[]): readonly Breach[] {
  const tries = calls.filter(({ invoke }) => invoke.act === 'release');
  const [first] = tries;
  const ttlMs = Math.max(0, ...calls.map(({ invoke }) => invoke.ttlMs ?? 0));
  if (first?.end === undefined) return [];
  const { slackMs, clockDrift } = view.settings;
  const { process, atMs } = first.invoke;
  // Decided upon before its process stood still, and sent only after that.
  const stood = metBy(view, ['pause', 'frozen-clocks'], {
    ...{ fromMs: atMs - slackMs, untilMs: atMs, processes: [process] },
  }).filter(({ begin }) => begin.target === process);
  const waitedMs = stood.reduce((sum, { fromMs, untilMs }) => sum + untilMs - fromMs, 0);
  const forMs = ttlMs * (1 - clockDrift) - slackMs - waitedMs;
  return untried(view, { cancels: tries, reached, dueMs: Infinity, forMs, shown: [first.invoke] });
}

interface Errand {
  readonly cancels: readonly Call[];
  /** What its process asked the store and had an answer to. */
  readonly reached: readonly Call[];
  /** When the first of them is due. */
  readonly dueMs: number;
  readonly forMs: number;
  readonly shown: readonly HistoryLine[];
}

/** Not tried once more, although the store was within reach when it was time. */
function untried(view: View, { cancels, reached, dueMs, forMs, shown }: Errand): readonly Breach[] {
  const [first] = cancels;
  const last = cancels.at(-1);
  if (last !== undefined && (last.end === undefined || !isUnanswered(last.end))) return [];
  const { slackMs, clockDrift } = view.settings;
  const fromMs = last?.end?.atMs ?? shown.at(-1)?.atMs ?? 0;
  const sinceMs = fromMs - (first?.invoke.atMs ?? fromMs);
  const retryMs = Math.min(LONGEST_RETRY_MS, sinceMs + FIRST_PAUSE_MS) * (1 + clockDrift) + slackMs;
  const nextMs = last === undefined ? dueMs : fromMs + retryMs;
  const overMs = (first?.end?.atMs ?? fromMs) + forMs;
  const passed = reached.find(
    ({ invoke }) =>
      invoke.atMs < overMs && invoke.atMs > nextMs + stoppedMs(view, invoke.process, fromMs, invoke.atMs) + slackMs,
  );
  if (passed === undefined) return [];
  const { leaseId } = shown[0] ?? passed.invoke;
  const why = `${leaseId} had to be taken back by ${nextMs.toFixed(3)} ms, and the store was within reach`;
  return [{ why, events: [...shown, ...(last?.end === undefined ? [] : [last.invoke, last.end]), passed.invoke] }];
}

export const withdrawalInvariants: readonly Invariant[] = [unansweredIsTakenBack];
