import type { Diagnosis, Severity } from '@leasehold/core/diagnosis';
import { DEFAULT_PREFIX, type ConnectionFlags, type Target } from '../connection.ts';
import { sameStore } from './again.ts';
import { leaseAdvice, waitLine } from './lease-advice.ts';
import { quoteWord } from './quote.ts';
import type { Output } from './output.ts';
import type { Tone } from './style.ts';

const TONES: Readonly<Record<Severity, Tone>> = { ok: 'good', wait: 'warning', act: 'bad', alarm: 'bad' };

/** How the store was reached. */
export interface Asked {
  readonly target: Pick<Target, 'prefix' | 'address'>;
  /** Of the config, where one was read. */
  readonly config: string | undefined;
  readonly flags: ConnectionFlags;
}

/** As a person reads it: the verdict, the evidence, what to do, what is refused and why, and how to check by hand. */
export async function diagnosisView(output: Output, diagnosis: Diagnosis, asked: Asked): Promise<void> {
  const { verdict, resource, evidence, lease } = diagnosis;
  output.line(verdict.sentence);
  output.fields([
    ['verdict', verdict.code, TONES[verdict.severity]],
    ['resource', `${asked.target.prefix}/${resource}`],
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
  for (const line of adviceOf(diagnosis, asked)) output.line(line);
  const { missing } = verdict.allowed.forceRelease;
  if (lease !== null && lease.state !== 'free' && missing.length > 0) {
    output.heading('Refused: force-release', 'always');
    for (const each of missing) output.line(`- ${each}`);
  }
  output.note(`By hand: leasehold diagnose ${quoteWord(resource)} --by-hand${sameStore(asked.flags)}`);
}

function adviceOf(diagnosis: Diagnosis, asked: Asked): readonly string[] {
  const { verdict, lease } = diagnosis;
  const { code, severity } = verdict;
  const lines: string[] = [];
  if (severity === 'alarm') {
    lines.push('Nobody releases or repairs anything before a second person has understood it.');
    if (code !== 'foreign') lines.push('Schedulers and workers that would acquire it may be stopped.');
  }
  if (code === 'split-brain') lines.push(...splitAdvice(diagnosis, asked));
  if (code === 'foreign') {
    lines.push(
      'Find out whose it is. If its time to live rises between two looks (--observe), its owner is at work: ask there.',
      'Do not remove it while its owner may live. Another prefix lets both run at once.',
    );
  }
  const again = sameStore(asked.flags);
  lines.push(...(lease === null ? absentAdvice(diagnosis, asked) : leaseAdvice(diagnosis, again)));
  if (code === 'evicted' || code === 'data-lost') {
    lines.push('Do not write the record by hand, and do not restart the server: a restart begins the wait again.');
  }
  if (code === 'evicted' || code === 'data-lost')
    lines.push(`So that it does not come again: leasehold doctor${again}.`);
  return lines.length === 0 ? ['Nothing.'] : lines;
}

function absentAdvice({ verdict: { allowed, waitFor }, at }: Diagnosis, asked: Asked): readonly string[] {
  const lines = waitFor === null ? [] : [waitLine(at, waitFor)];
  const { config, flags, target } = asked;
  // At the wrong prefix everything is free.
  if (config === undefined && flags.prefix === undefined && target.prefix === DEFAULT_PREFIX) {
    lines.push(
      `This was asked of the prefix ${DEFAULT_PREFIX}, because none was given: if it is another one, --prefix or -c says so.`,
    );
  }
  if (!allowed.acquire) return lines;
  return [
    ...lines,
    waitFor === null
      ? 'Whoever asks gets it.'
      : 'Whoever asks gets it already now, perhaps beside an owner that was lost: only a fence would refuse that one.',
  ];
}

/** Each master may have an owner of its own. */
function splitAdvice(
  { masters, resource, lease, fences }: Diagnosis,
  { target, config, flags }: Asked,
): readonly string[] {
  const name = quoteWord(resource);
  const each = masters.map(({ endpoint, promotedFrom }) =>
    promotedFrom === null ? endpoint : `${endpoint} (was a replica of ${promotedFrom}, and promoted)`,
  );
  const [, ...others] = masters;
  const fence = fences.find(({ enforcing }) => enforcing)?.name;
  const own = lease === null ? '' : `; here ${lease.fencingToken}`;
  const { prefix, address } = target;
  // With a config prefix and fences stay its own, whatever server is asked.
  const from = config === undefined ? `--prefix ${quoteWord(prefix)}` : `-c ${quoteWord(config)}`;
  const scheme = address.startsWith('rediss') ? 'rediss' : 'redis';
  const database = URL.canParse(address) ? new URL(address).pathname.replace(/^\/0?$/, '') : '';
  return [
    `The masters: ${each.join(' and ')}. What is told here is what the first says.`,
    ...others.map(
      ({ endpoint }) =>
        `What the other says, which is asked alone then: leasehold diagnose ${name} ${from} -u ${scheme}://${endpoint}${database}`,
    ),
    `If a wrong write is worse than none: leasehold seal ${name} --fence ${fence === undefined ? '…' : quoteWord(fence)} --token <the larger of their tokens${own}> --reason …${sameStore(flags)} (safe: it refuses every owner up to now, and releases nothing).`,
  ];
}
