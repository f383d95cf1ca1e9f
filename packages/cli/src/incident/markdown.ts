import { escapeText } from '../output/escape.ts';
import type { Incident } from './incident.ts';

/** Whatever Markdown, or what reads it, makes more of than its character. */
const SPECIAL = /[\\`*_~[\]<>|&#!]/g;

type Row = readonly (string | number)[];

/** For people, and for the record of an incident. What others wrote is text in it, and nothing else. */
export function markdownOf(incident: Incident): string {
  const { resource, namespace, diagnosis, missing, events, vitals } = incident;
  const { verdict, evidence, lease, fences, servers, byHand } = diagnosis;
  return [
    `# ${md(namespace)}/${md(resource)}: ${md(verdict.code)}\n`,
    `${md(verdict.sentence)}\n`,
    table(['', ''], heads(incident)),
    '## What is missing\n',
    missing.length === 0
      ? 'Nothing.\n'
      : table(
          ['what', 'why'],
          missing.map(({ what, why }) => [what, why]),
        ),
    '## Evidence\n',
    table(
      ['', 'what', 'value', 'means', 'from', 'what could mislead'],
      evidence.map(({ id, name, value, meaning, source, caveat }) => [id, name, value, meaning, source, caveat]),
    ),
    '## Record\n',
    lease === null ? 'None that could be read.\n' : table(['field', 'value'], fieldsOf(lease)),
    '## What the owner measured of itself\n',
    vitals === null ? 'Nothing is known of it.\n' : table(['figure', 'value'], fieldsOf(vitals)),
    '## Fences\n',
    fences.length === 0
      ? 'None was asked.\n'
      : table(
          ['fence', 'enforcing', 'highest token', 'sealed'],
          fences.map(({ name, enforcing, highest, sealed }) => [
            ...[name, yes(enforcing), highest === undefined ? 'no answer' : (highest ?? 'none'), yes(sealed)],
          ]),
        ),
    '## Servers\n',
    servers.length === 0
      ? 'None could be asked.\n'
      : table(
          ['of', ...servers.map(({ endpoint }) => endpoint)],
          readingNames(servers[0]).map((name) => [
            name,
            ...servers.map((server) => told((server as unknown as Readonly<Record<string, unknown>>)[name])),
          ]),
        ),
    '## Events, the newest first\n',
    events === null
      ? 'They could not be read.\n'
      : events.length === 0
        ? 'None is kept.\n'
        : table(
            ['at', 'event', 'token', 'owner', 'detail'],
            events.map(({ at, event, fencingToken, owner, detail }) => [
              ...[at.toISOString(), event, fencingToken, owner, detail],
            ]),
          ),
    '## What was allowed\n',
    table(['what', 'allowed', 'what was missing'], allowed(verdict)),
    '## By hand\n',
    code(byHand.map(({ command, lookFor }) => `${command}    # ${lookFor}`)),
  ].join('\n');
}

function heads({ writtenAt, writtenBy, versions, target, diagnosis }: Incident): readonly Row[] {
  return [
    ['written', `${writtenAt} by ${writtenBy.operator}, pid ${writtenBy.pid} (${writtenBy.command})`],
    ['with', `leasehold ${versions.leasehold}, node ${versions.node}, ${versions.platform}`],
    [
      'asked',
      [target.address, `prefix ${target.prefix}`, target.origin ?? ''].filter((part) => part !== '').join(' · '),
    ],
    ['severity', diagnosis.verdict.severity],
  ];
}

function allowed({ allowed: may }: Incident['diagnosis']['verdict']): readonly Row[] {
  return [
    ['an ordinary acquire', yes(may.acquire), ''],
    ['to ask the owner to let go', yes(may.revoke), ''],
    ['a release by force', yes(may.forceRelease.allowed), may.forceRelease.missing.join('; ')],
    ['the same without a fence', yes(may.forceReleaseUnfenced.allowed), may.forceReleaseUnfenced.missing.join('; ')],
  ];
}

/** Names and values, what is in them as JSON. */
function fieldsOf(value: object): readonly Row[] {
  return Object.entries(value).map(([name, each]: [string, unknown]) => [name, shown(each)]);
}

function shown(value: unknown): string {
  if (value instanceof Date) return value.toISOString();
  if (typeof value === 'string') return value;
  return JSON.stringify(value) ?? '';
}

function readingNames(server: object | undefined): readonly string[] {
  return Object.keys(server ?? {}).filter((name) => name !== 'endpoint');
}

function told(reading: unknown): string {
  const { known, value, why, detail } = reading as Readonly<Record<string, unknown>>;
  return known === true ? shown(value) : `${String(why).replace('-', ' ')}: ${String(detail)}`;
}

function yes(is: boolean): string {
  return is ? 'yes' : 'no';
}

function md(text: string): string {
  return escapeText(text).replace(SPECIAL, (char) => `\\${char}`);
}

function table(heads: readonly string[], rows: readonly Row[]): string {
  const lines = [heads, heads.map(() => '---')].map(
    (cells) => `| ${cells.map((cell) => (cell === '---' ? cell : md(cell))).join(' | ')} |`,
  );
  return `${[...lines, ...rows.map((cells) => `| ${cells.map((cell) => md(String(cell))).join(' | ')} |`)].join('\n')}\n`;
}

/** Its end is longer than anything in it. */
function code(lines: readonly string[]): string {
  const text = lines.map((line) => escapeText(line)).join('\n');
  const longest = Math.max(2, ...(text.match(/`+/g) ?? []).map((run) => run.length));
  const mark = '`'.repeat(longest + 1);
  return `${mark}sh\n${text}\n${mark}\n`;
}
