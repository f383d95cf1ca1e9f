import type { Diagnosis, Severity, VerdictCode } from '@leasehold/core/diagnosis';
import { quoteWord } from './quote.ts';
import type { Output } from './output.ts';
import type { Tone } from './style.ts';

const TONES: Readonly<Record<Severity, Tone>> = { ok: 'good', wait: 'warning', act: 'bad', alarm: 'bad' };

/** As a person reads it: the verdict, the evidence, what to do, what is refused and why, and how to check by hand. */
export async function diagnosisView(output: Output, diagnosis: Diagnosis, prefix: string): Promise<void> {
  const { verdict, resource, evidence, lease } = diagnosis;
  output.line(verdict.sentence);
  output.fields([
    ['verdict', verdict.code, TONES[verdict.severity]],
    ['resource', `${prefix}/${resource}`],
  ]);
  output.heading('Evidence');
  await output.table(
    [
      { title: '' },
      { title: 'WHAT' },
      { title: 'VALUE', yields: 'last' },
      { title: 'MEANS', yields: 'first' },
      { title: 'FROM', yields: 'first' },
    ],
    evidence.map(({ id, name, value, meaning, source }) =>
      [id, name, value, meaning, source].map((text) => ({ text })),
    ),
  );
  const caveats = evidence.filter(({ caveat }) => caveat !== '');
  if (caveats.length > 0) {
    output.heading('What could mislead', 'always');
    for (const { id, name, caveat } of caveats) output.line(`${id} ${name}: ${caveat}`);
  }
  output.heading('What to do', 'always');
  for (const line of adviceOf(diagnosis)) output.line(line);
  const { missing } = verdict.allowed.forceRelease;
  if (lease !== null && lease.state !== 'free' && missing.length > 0) {
    output.heading('Refused: force-release', 'always');
    for (const each of missing) output.line(`- ${each}`);
  }
  output.note(`By hand: leasehold diagnose ${quoteWord(resource)} --by-hand`);
}

/** Whoever does not extend may still act. */
const LATE: ReadonlySet<VerdictCode> = new Set(['paused', 'partitioned', 'silent', 'expired-alive']);

function adviceOf(diagnosis: Diagnosis): readonly string[] {
  const { verdict, resource, lease, owner } = diagnosis;
  const { code, allowed, waitFor, severity } = verdict;
  const name = quoteWord(resource);
  const lines: string[] = [];
  if (severity === 'alarm')
    lines.push('Nothing, before a second person has understood it. Stop what acquires it, if that is possible.');
  if (code === 'foreign') {
    lines.push(
      'If its time to live rises between two looks, whoever has it is at work: ask there, or use another prefix.',
    );
  }
  if (code === 'orphaned-running') lines.push('Nothing but to wait: who asks gets it then.');
  if (code === 'held') lines.push('Nothing: it is at work. Who waits gets it when its run has ended.');
  if (isLoose(diagnosis)) {
    lines.push(
      `End its process first: it is ${owner.state} (${owner.detail}), and no fence that was named refuses what it writes when it goes on.`,
    );
  }
  if (waitFor !== null) lines.push(`Wait ${(waitFor.ms / 1000).toFixed(1)} s: ${waitFor.what}.`);
  if (allowed.acquire && waitFor !== null && lease === null) {
    lines.push(
      'Whoever asks gets it already now, perhaps beside an owner that was lost: only a fence would refuse that one.',
    );
  } else if (allowed.acquire) {
    lines.push('Whoever asks gets it: an ordinary acquisition takes it over, nothing has to be released.');
  }
  if (code === 'revoked') {
    lines.push(
      `It was asked to end. If its process goes on once the lease has run out, end that, too (${owner.detail}).`,
    );
  } else if (allowed.revoke && lease !== null && owner.state !== 'gone') {
    lines.push(`To end its run: leasehold stop ${name} --lease-id ${lease.leaseId} --reason …`);
  }
  if (allowed.forceRelease.allowed && lease !== null) {
    lines.push(`If it must be free now: leasehold force-release ${name} --lease-id ${lease.leaseId} --reason …`);
  }
  if (code === 'evicted' || code === 'data-lost') lines.push('So that it does not come again: leasehold doctor.');
  return lines.length === 0 ? ['Nothing.'] : lines;
}

/** Its owner is there, does not extend any more, and may write all the same. */
function isLoose({ verdict, owner, fences }: Diagnosis): boolean {
  const isThere = owner.state === 'alive' || owner.state === 'stopped';
  return isThere && LATE.has(verdict.code) && !fences.some(({ enforcing, highest }) => enforcing && highest !== null);
}
