import type { Checkup, FindingSeverity } from '@leasehold/core/diagnosis';
import type { Output } from './output.ts';
import type { Tone } from './style.ts';

const TONES: Readonly<Record<FindingSeverity, Tone>> = {
  error: 'bad',
  warning: 'warning',
  notice: 'quiet',
  ok: 'good',
};

/** The findings, the worst first, what to do about them, and the smallest rights. */
export async function doctorView(output: Output, { findings, smallestAcl }: Checkup): Promise<void> {
  await output.table(
    [{ title: 'SEVERITY' }, { title: 'CHECK' }, { title: 'OF', yields: 'last' }, { title: 'FOUND', yields: 'first' }],
    findings.map(({ id, severity, subject, reason }) => [
      { text: severity.toUpperCase(), tone: TONES[severity] },
      { text: id },
      { text: subject === '' ? '-' : subject },
      { text: reason },
    ]),
  );
  const bad = findings.filter(({ severity, remedy }) => severity !== 'ok' && (severity !== 'notice' || remedy !== ''));
  if (bad.length > 0) {
    output.heading('What to do');
    for (const { id, subject, reason, remedy } of bad) {
      output.line(`${[id, subject].filter((part) => part !== '').join(' ')}: ${reason}`);
      output.line(`  ${remedy}`);
    }
  }
  if (smallestAcl === null) return;
  output.heading('The smallest rights, of owners and of people who look (a password comes on top: >secret)');
  output.line(smallestAcl.own);
  output.line(smallestAcl.look);
  output.note(summary(findings));
}

function summary(findings: Checkup['findings']): string {
  const count = (severity: FindingSeverity): number => findings.filter((each) => each.severity === severity).length;
  const parts = [
    plural(count('error'), 'error'),
    plural(count('warning'), 'warning'),
    plural(count('notice'), 'notice'),
  ];
  return `${parts.join(', ')}; ${count('ok')} of ${findings.length} checks found nothing`;
}

function plural(count: number, what: string): string {
  return `${count} ${what}${count === 1 ? '' : 's'}`;
}
