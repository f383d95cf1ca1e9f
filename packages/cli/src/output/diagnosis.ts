import type { Diagnosis, Severity } from '@leasehold/core/diagnosis';
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
    output.heading('What could mislead');
    for (const { id, name, caveat } of caveats) output.line(`${id} ${name}: ${caveat}`);
  }
  output.heading('What to do');
  for (const line of adviceOf(diagnosis)) output.line(line);
  const { missing } = verdict.allowed.forceRelease;
  if (lease !== null && lease.state !== 'free' && missing.length > 0) {
    output.heading('Refused: force-release');
    for (const each of missing) output.line(`- ${each}`);
  }
  output.note(`By hand: leasehold diagnose ${quoteWord(resource)} --by-hand`);
}

function adviceOf({ verdict, resource, lease }: Diagnosis): readonly string[] {
  const { allowed, waitFor, severity } = verdict;
  const name = quoteWord(resource);
  const lines: string[] = [];
  if (severity === 'alarm')
    lines.push('Nothing, before a second person has understood it. Stop what acquires it, if that is possible.');
  if (waitFor !== null) lines.push(`Wait ${(waitFor.ms / 1000).toFixed(1)} s: ${waitFor.what}.`);
  if (allowed.acquire)
    lines.push('Whoever asks gets it: an ordinary acquisition takes it over, nothing has to be released.');
  if (allowed.revoke && lease !== null)
    lines.push(`To end its run: leasehold stop ${name} --lease-id ${lease.leaseId} --reason …`);
  if (allowed.forceRelease.allowed && lease !== null) {
    lines.push(`If it must be free now: leasehold force-release ${name} --lease-id ${lease.leaseId} --reason …`);
  }
  return lines.length === 0 ? ['Nothing.'] : lines;
}
