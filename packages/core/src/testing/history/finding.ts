import type { FenceRow, GrantRow, HistoryLine } from './history.ts';
import type { View } from './view.ts';

/** S: safety. L: liveness. V: the run was worth something. */
export type InvariantId = `${'S' | 'L' | 'V'}${number}`;

/** One thing that happened, of whatever kind. */
export type Happening = HistoryLine | FenceRow | GrantRow;

/** What is wrong, with what shows it in the order in which it happened. */
export interface Breach {
  readonly why: string;
  readonly events: readonly Happening[];
  /** The fault under which nothing better can be asked for, if one was there: then it is none. */
  readonly excuse?: string | undefined;
}

export interface Invariant {
  readonly id: InvariantId;
  /** The rule, in words. */
  readonly rule: string;
  /** Everything in the history that breaks it. */
  readonly breaches: (view: View) => readonly Breach[];
  /**
   * Why the rule cannot be asked for in this run, or null: a server whose clock is stepped gives two owners belief in a
   * lease, and no store can help it.
   */
  readonly waived?: (view: View) => string | null;
}

export interface Finding extends Breach {
  readonly invariant: InvariantId;
  readonly rule: string;
  /** All of it in words, for people. */
  readonly message: string;
}

/** At most so many events in a message: the first ones tell the story. */
const SHOWN = 12;

export function findingOf({ id, rule }: Pick<Invariant, 'id' | 'rule'>, { why, events }: Breach): Finding {
  const shown = events.slice(0, SHOWN).map((event) => `    ${describeHappening(event)}`);
  const more = events.length > SHOWN ? [`    and ${events.length - SHOWN} more`] : [];
  const message = [`${id} ${rule}`, `  ${why}`, ...shown, ...more].join('\n');
  return { invariant: id, rule, why, events, message };
}

/** One line, with a column for the time. */
export function describeHappening(event: Happening): string {
  const time = `${event.atMs.toFixed(3)} ms`.padStart(16);
  if ('phase' in event) return `${time}  ${event.process.padEnd(10)} ${describeLine(event)}`;
  const { resource, fencingToken } = event;
  const whose = `${resource}#${fencingToken} ${event.leaseId ?? '(sealed)'}`;
  if (!('fence' in event)) return `${time}  ${'store'.padEnd(10)} granted ${whose}`;
  const { highest, writeId, before, after } = event;
  const extra = [
    writeId,
    before === undefined ? undefined : `version ${before} to ${after}`,
    highest && `highest ${highest.fencingToken} ${highest.leaseId ?? '(sealed)'}`,
  ].filter((each) => each !== undefined);
  const verdict = event.accepted ? 'accepted' : 'refused';
  return [`${time}  ${event.fence.padEnd(10)} ${event.act} ${verdict} ${whose}`, ...extra].join(', ');
}

function describeLine(line: HistoryLine): string {
  const { job, tickAt } = line;
  const { act, phase, resource, fencingToken, leaseId, from, nemesis, target, writeId, version, outcome, effect } =
    line;
  const token = fencingToken === undefined ? '' : `#${fencingToken}`;
  const parts = [
    `${act}.${phase}`,
    nemesis,
    target && `on ${target}`,
    resource && `${resource}${token}`,
    leaseId,
    job && `tick ${tickAt} of ${job}`,
    from && `from ${from}`,
    writeId,
    version === undefined ? undefined : `by version ${version}`,
    outcome && `(${outcome})`,
    effect === undefined ? undefined : `effect ${effect}`,
  ];
  return parts.filter((part) => part !== undefined && part !== '').join(' ');
}
