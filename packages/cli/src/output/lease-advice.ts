/** What to do about a lease that somebody has, or had. */

import type { Diagnosis, Severity, VerdictCode } from '@leasehold/core/diagnosis';
import { quoteWord } from './quote.ts';
import { formatDuration, untilOf } from './time.ts';

/** Whoever does not extend may still act. */
const LATE: ReadonlySet<VerdictCode> = new Set(['paused', 'partitioned', 'silent', 'expired-alive']);
/** It may be there, and what it writes is still admitted. */
const UNSHUT: ReadonlySet<VerdictCode> = new Set([...LATE, 'expired', 'stale-suspect']);
const BROKEN_OFF: ReadonlySet<VerdictCode> = new Set([
  ...(['orphaned-running', 'expired', 'expired-alive', 'orphaned', 'stale-suspect', 'stale-unfenced'] as const),
]);

/**
 * In the order in which it is done. Empty if nobody is known to have had it. `again` is what a proposed command needs behind it
 * (`sameStore`).
 */
export function leaseAdvice(diagnosis: Diagnosis, again: string): readonly string[] {
  const { lease } = diagnosis;
  if (lease === null) return [];
  const past = pastAdvice(diagnosis, lease);
  if (lease.state === 'free') return [...waitAdvice(diagnosis), ...past];
  const end = endAdvice(diagnosis);
  // Behind a fence its end is one of the harder means, without one it comes first.
  const [before, after] = isGuarded(diagnosis) ? [[], end] : [end, []];
  return [
    ...firstAdvice(diagnosis),
    ...before,
    ...waitAdvice(diagnosis),
    ...past,
    ...hardAdvice(diagnosis, lease, again),
    ...after,
  ];
}

type Lease = NonNullable<Diagnosis['lease']>;

function firstAdvice({ verdict: { code }, owner }: Diagnosis): readonly string[] {
  if (code === 'orphaned-running') return ['Nothing but to wait: who asks gets it then.'];
  if (code !== 'held') return [];
  return owner.state === 'alive' || owner.state === 'unverifiable'
    ? [
        'Nothing to release: it is extended. That does not show that its run gets on: one that hangs in a loop looks the same; its own log tells. Who waits gets it when the run has ended.',
      ]
    : ['Nothing yet: look again in a moment.'];
}

/** How its process is ended, and whether that comes first. */
function endAdvice(diagnosis: Diagnosis): readonly string[] {
  const { owner, verdict } = diagnosis;
  const { state, detail, endByHand } = owner;
  const isAsked = verdict.code === 'revoked';
  if ((state !== 'alive' && state !== 'stopped') || (!LATE.has(verdict.code) && !(isAsked && state === 'stopped'))) {
    return [];
  }
  const isStopped = state === 'stopped';
  const isFirst = !isGuarded(diagnosis);
  // A fence refuses it, and nobody has to end one that may get on.
  if (!isFirst && !isStopped) return [];
  const why = `it is ${state} (${detail}), and no fence that was named refuses what it writes ${isStopped ? 'when it goes on' : 'after its lease'}`;
  return [
    isFirst
      ? `End its process first: ${why}.`
      : `To end its process, which is ${state} (${detail}), and refused by the fence once the next owner has written there:`,
    endByHand === undefined
      ? `End it where it runs${isStopped ? ', with SIGKILL' : ''}.`
      : `${endByHand}    # looks first whether it is the same process still`,
    isStopped
      ? 'SIGTERM would stay pending as long as it is stopped, and to let it go on (SIGCONT) would let it write.'
      : 'If it does not end, the same with -KILL.',
  ];
}

function waitAdvice(diagnosis: Diagnosis): readonly string[] {
  const { verdict, at, owner } = diagnosis;
  const { code, waitFor, allowed, severity } = verdict;
  const lines: string[] = [];
  if (waitFor !== null && !allowed.acquire) lines.push(waitLine(at, waitFor));
  if (code === 'revoked') {
    lines.push(
      `Then look whether its process has ended${owner.state === 'gone' ? '' : ` (${owner.detail})`}: one that does not obey goes on, ${isGuarded(diagnosis) ? 'with its writes refused once the next owner has written' : 'and without a fence two act'}. End that, too.`,
    );
    if (owner.state === 'alive' && owner.endByHand !== undefined) lines.push(`To end it then: ${owner.endByHand}`);
  }
  if (allowed.acquire) {
    const isFirst = isLoose(diagnosis);
    lines.push(isFirst ? 'Only then start the next run; it takes the lease over as always.' : TAKEN_OVER[severity]);
  }
  if (waitFor !== null && allowed.acquire) {
    lines.push(`${waitLine(at, waitFor)} Only a release by force needs that (--observe).`);
  }
  return lines;
}

const TAKEN_OVER: Readonly<Record<Severity, string>> = {
  ok: 'Whoever asks gets it.',
  wait: 'Whoever asks gets it: an ordinary acquisition takes it over, nothing has to be released.',
  act: 'Nobody has asked for it since: start the next run, which takes it over as always. It needs no release.',
  alarm: 'Whoever asks would get it all the same.',
};

/** What those may have left who did not let go themselves. */
function pastAdvice({ verdict: { code } }: Diagnosis, { previous, readAt }: Lease): readonly string[] {
  const lines: string[] = [];
  const isBroken = BROKEN_OFF.has(code);
  if (isBroken) lines.push('Its run has not let go: look what it left half done before the next one starts.');
  const how = ENDED.get(previous?.reason ?? '');
  if (previous !== null && how !== undefined) {
    const ago = formatDuration(readAt.getTime() - previous.endedAt.getTime());
    const half = isBroken ? '' : ', and what it left half done';
    lines.push(`Before it: ${previous.owner}, ${how} ${ago} ago. Look whether its process has ended${half}.`);
  }
  return lines;
}

/** Who ended otherwise has let go itself. */
const ENDED: ReadonlyMap<string, string> = new Map([
  ['expired', 'whose lease ran out'],
  ['force-released', 'whose lease was released by force'],
  ['replaced', 'which a fence refused'],
]);

/** From gentle to hard. */
function hardAdvice({ verdict, resource, owner, fences }: Diagnosis, lease: Lease, again: string): readonly string[] {
  const { code, allowed } = verdict;
  const name = quoteWord(resource);
  const lines: string[] = [];
  // Who is stopped or gone cannot answer.
  const canAnswer = owner.state === 'alive' || owner.state === 'unverifiable';
  if (allowed.revoke && canAnswer && code !== 'revoked') {
    lines.push(`To end its run: leasehold stop ${name} --lease-id ${lease.leaseId} --reason …${again}`);
  }
  const admitting = fences.filter(({ enforcing, highest }) => enforcing && highest === lease.fencingToken);
  if (UNSHUT.has(code)) {
    for (const { name: fence } of admitting) {
      lines.push(
        `Until the next owner writes there, ${fence} still admits what it writes. To shut it out now, releasing nothing: leasehold seal ${name} --fence ${quoteWord(fence)} --reason …${again}`,
      );
    }
  }
  if (allowed.forceRelease.allowed) {
    lines.push(
      `If it must be free now: leasehold force-release ${name} --lease-id ${lease.leaseId} --reason …${again}`,
    );
  }
  return lines;
}

/** Its owner is there, does not extend any more, and may write all the same. */
function isLoose(diagnosis: Diagnosis): boolean {
  const { verdict, owner } = diagnosis;
  const isThere = owner.state === 'alive' || owner.state === 'stopped';
  return isThere && LATE.has(verdict.code) && !isGuarded(diagnosis);
}

function isGuarded({ fences }: Diagnosis): boolean {
  return fences.some(({ enforcing, highest }) => enforcing && highest !== null);
}

export function waitLine(at: string, { what, ms }: NonNullable<Diagnosis['verdict']['waitFor']>): string {
  return `Wait ${(ms / 1000).toFixed(1)} s, until ${untilOf(Date.parse(at) + ms)}: ${what}.`;
}
