import type { History, HistoryLine } from '@leasehold/core/testing/history';

/** One lease of one process. Milliseconds on the clock of the history. */
export interface Ownership {
  readonly process: string;
  readonly token: number;
  readonly fromMs: number;
  /** Until then the process took itself for the owner, or would have if it had run. */
  readonly believedMs: number;
  /** Until then the store let nobody else in. */
  readonly heldMs: number;
}

/** What a picture of a run shows. */
export interface Picture {
  readonly fromMs: number;
  readonly toMs: number;
  /** When the first fault began. */
  readonly zeroMs: number;
  readonly ownerships: readonly Ownership[];
  readonly writes: readonly { readonly atMs: number; readonly kind: 'owner' | 'successor' | 'refused' }[];
  readonly aborts: readonly { readonly atMs: number; readonly process: string }[];
  readonly ends: readonly { readonly atMs: number; readonly process: string; readonly word: string }[];
  readonly faults: readonly { readonly name: string; readonly fromMs: number; readonly untilMs: number }[];
  /** The same in words, a sentence each. */
  readonly words: readonly string[];
}

/** Before the first lease and behind the last event, as a share of what is between. */
const ROOM = 0.03;

export function drillPicture({ lines, fences, endMs }: History): Picture {
  const sorted = [...lines].sort((a, b) => a.atMs - b.atMs || a.seq - b.seq);
  const faults = faultsOf(sorted, endMs);
  const lostMs = faults.find(({ name }) => name === 'data-loss')?.untilMs ?? endMs;
  const ownerships = ownershipsOf(sorted, lostMs, endMs);
  const writes = fences
    .filter(({ act }) => act === 'write')
    .map(({ atMs, accepted, writeId }) => {
      const writer = sorted.find((line) => line.writeId === writeId && line.act === 'write')?.process;
      return {
        atMs,
        kind: accepted ? (writer === 'successor' ? ('successor' as const) : ('owner' as const)) : ('refused' as const),
      };
    });
  const aborts = sorted.filter(({ act }) => act === 'lost').map(({ atMs, process }) => ({ atMs, process }));
  const ends = sorted
    .filter(({ act }) => act === 'died' || act === 'released')
    .map(({ atMs, process, act }) => ({ atMs, process, word: act === 'died' ? 'killed' : 'released' }));
  const times = [...ownerships.map(({ fromMs }) => fromMs), ...faults.map(({ fromMs }) => fromMs)];
  const firstMs = Math.min(endMs, ...times);
  const lastMs = Math.max(
    firstMs,
    ...writes.map(({ atMs }) => atMs),
    ...ends.map(({ atMs }) => atMs),
    ...faults.map(({ untilMs }) => untilMs),
  );
  const room = ROOM * Math.max(1, lastMs - firstMs);
  const zeroMs = faults[0]?.fromMs ?? firstMs;
  const parts = { ownerships, writes, aborts, ends, faults };
  return { fromMs: firstMs - room, toMs: lastMs + room, zeroMs, ...parts, words: wordsOf(parts, zeroMs) };
}

/** `lostMs`: when the store lost what it knew. */
function ownershipsOf(lines: readonly HistoryLine[], lostMs: number, endMs: number): readonly Ownership[] {
  const granted = lines.filter(({ act, phase }) => act === 'acquire' && phase === 'ok');
  return granted.map((grant) => {
    const { process, leaseId, fencingToken = 0, atMs: fromMs } = grant;
    const own = lines.filter((line) => line.leaseId === leaseId && line.process === process);
    const over = own.find(({ act, phase }) => act === 'lost' || (act === 'release' && phase === 'invoke'));
    const died = lines.find((line) => line.process === process && line.act === 'died');
    const confirmed = own.filter(({ act, phase }) => (act === 'acquire' || act === 'extend') && phase === 'ok');
    const last = own.find(({ phase, call }) => phase === 'invoke' && call === confirmed.at(-1)?.call) ?? grant;
    const expiresMs = last.atMs + (last.ttlMs ?? 0);
    const next = granted.find((other) => other.atMs > fromMs && other.leaseId !== leaseId);
    const released = own.find(({ act, phase }) => act === 'release' && phase === 'ok');
    return {
      process,
      token: fencingToken,
      fromMs,
      believedMs: Math.min(over?.atMs ?? endMs, died?.atMs ?? endMs),
      heldMs: Math.min(fromMs < lostMs ? lostMs : endMs, expiresMs, next?.atMs ?? endMs, released?.atMs ?? endMs),
    };
  });
}

function faultsOf(lines: readonly HistoryLine[], endMs: number): Picture['faults'] {
  return lines
    .filter(({ act, phase }) => act === 'nemesis' && phase === 'invoke')
    .map(({ process, call, nemesis = '', atMs }) => {
      const end = lines.find((line) => line.process === process && line.call === call && line.phase !== 'invoke');
      return { name: nemesis, fromMs: atMs, untilMs: end?.atMs ?? endMs };
    });
}

function wordsOf(
  { ownerships, writes, aborts, ends, faults }: Omit<Picture, 'fromMs' | 'toMs' | 'zeroMs' | 'words'>,
  zeroMs: number,
): readonly string[] {
  const at = (atMs: number): string => `${Math.round(atMs - zeroMs)} ms`;
  const count = (kind: Picture['writes'][number]['kind']): number => writes.filter((its) => its.kind === kind).length;
  return [
    ...faults.map(({ name, fromMs, untilMs }) => `Fault ${name} from ${at(fromMs)} to ${at(untilMs)}.`),
    ...ownerships.map(
      ({ process, token, fromMs, believedMs, heldMs }) =>
        `${process}, token ${token}: owner from ${at(fromMs)}, believed so until ${at(believedMs)}, held by the store until ${at(heldMs)}.`,
    ),
    ...aborts.map(({ process, atMs }) => `${process} was told at ${at(atMs)} that its lease is over.`),
    ...ends.map(
      ({ process, atMs, word }) => `${process} ${word === 'killed' ? 'was killed' : 'released'} at ${at(atMs)}.`,
    ),
    `Writes accepted: ${count('owner')} of the owner, ${count('successor')} of the successor. Refused by the fence: ${count('refused')}.`,
  ];
}
