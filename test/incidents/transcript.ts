import { Readable } from 'node:stream';
import { hostname, userInfo } from 'node:os';

import { EXIT } from '../../packages/cli/src/exit.ts';
import { main } from '../../packages/cli/src/program.ts';

/** So wide that nothing is cut: where a table is cut depends on the length of ports and pids. */
const COLUMNS = 400;

/** A command and what it says, as a person sees it who stands in the folder of the config. */
export interface Shown {
  /** Where the page has it: `<!-- output: held -->`. */
  readonly name: string;
  readonly text: string;
}

interface Selection {
  readonly sections?: readonly string[];
  readonly lines?: RegExp;
  readonly until?: (said: string) => boolean;
}

/**
 * Runs `leasehold` as at a terminal. Of sections only those that are named are kept, with the lines before the first section; `…`
 * stands for what is left out. With `lines` only those that match. With `until` it is run again until that is so: for what
 * lasts a moment, and for a machine that is so busy that a server does not answer in time.
 */
export async function transcript(
  args: readonly string[],
  flags: readonly string[],
  { sections, lines, until = () => true }: Selection = {},
): Promise<string> {
  let { code, said } = await call([...args, ...flags]);
  while (code === EXIT.unreachable || !until(said)) ({ code, said } = await call([...args, ...flags]));
  const kept = said
    .split('\n')
    .filter((line) => !/^(redis:\/\/.* · prefix|watching: )/.test(line))
    .map((line) => line.replaceAll(/\/\S*leasehold-incident-\w+\//g, '').trimEnd());
  const shown = lines === undefined ? excerpt(kept, sections) : kept.filter((line) => lines.test(line));
  const exit = code === 0 ? [] : [`(exit ${code})`];
  const whole = [`$ leasehold ${args.join(' ')}`, ...shown].join('\n').trimEnd();
  return [whole, ...exit].join('\n').replaceAll(/\n{2,}/g, '\n\n');
}

async function call(args: readonly string[]): Promise<{ readonly code: number; readonly said: string }> {
  let said = '';
  const stream = { isTTY: true, columns: COLUMNS, write: (text: string) => void (said += text) };
  const code = await main(args, { stdin: Readable.from([]), env: { NO_COLOR: '1' }, stdout: stream, stderr: stream });
  return { code, said };
}

/** Sections have a line with their title behind an empty one. */
function excerpt(lines: readonly string[], sections: readonly string[] | undefined): readonly string[] {
  if (sections === undefined) return lines;
  let isKept = true;
  return lines.flatMap((line, index) => {
    if (lines[index - 1] !== '' || index === 0) return isKept && line !== '' ? [line] : [];
    const wasKept = isKept;
    isKept = sections.includes(line);
    if (isKept) return ['', line];
    return wasKept ? ['', '…'] : [];
  });
}

/** Without what is another thing each time: tokens, ids, times, pids, ports. */
function withoutVolatile(text: string): string {
  const rules: readonly (readonly [RegExp, string])[] = [
    [/\b[0-9a-f]{32}\b/g, '<id>'],
    [/\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b/g, '<uuid>'],
    [/\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC/g, '<instant>'],
    [/the machine ids differ|there is no machine id to compare/g, '<machine ids>'],
    [/\b\d{16}\b/g, '<token>'],
    [/\d{4}-\d\d-\d\dT[\d:.]+Z/g, '<instant>'],
    [/\b\d\d:\d\d:\d\dZ/g, '<time>'],
    [/127\.0\.0\.1:\d+/g, '<address>'],
    [/[−+]?\b\d+(\.\d+)? (ms|s|min|h)\b/g, '<s>'],
    [/\b\d+(ms|s|m|h)( ago)?\b/g, '<s>'],
    [/\b(pid|process) \d+/g, '$1 <pid>'],
    [/= \d+ \] && kill -(\w+) \d+/g, '= <ticks> ] && kill -$1 <pid>'],
    [/-p \d+|_PID=\d+|\/proc\/\d+/g, '<pid>'],
    [/\bstate [RSD]\b/g, 'state S'],
    [/\d+\.\d+\.\d+/g, '<version>'],
    [/\b\d+ (so far|keys since)/g, '<n> $1'],
    [/\b\d+ %/g, '<n> %'],
    [/\band acquired <s> ago/g, 'and extended <s> ago'],
    [/extended \d+ times/g, 'extended <n> times'],
    [/\d\.\d\d of the ttl/g, '<ratio> of the ttl'],
    [/; the owner's host was <s> off the store/g, ''],
    [/leasehold-incident-\w+/g, '<folder>'],
    [/<address> \(idle <s>\)(, <address> \(idle <s>\))*/g, '<connections>'],
    [/[ \t]+/g, ' '],
  ];
  const own = [hostname(), userInfo().username].reduce((all, name) => all.replaceAll(name, '<who>'), text);
  return rules.reduce((all, [pattern, shown]) => all.replace(pattern, shown), own);
}

/** The page with these blocks in it; a block that says the same but for what is volatile stays as it is. */
export function pageWith(page: string, all: readonly Shown[]): string {
  return page.replaceAll(/<!-- output: ([\w-]+) -->\n```console\n([^]*?)\n```/g, (block, name: string, was: string) => {
    const now = all.find((each) => each.name === name)?.text ?? '(nobody shows this)';
    return withoutVolatile(was) === withoutVolatile(now)
      ? block
      : `<!-- output: ${name} -->\n\`\`\`console\n${now}\n\`\`\``;
  });
}

/** The names of the blocks of a page. */
export function blocksOf(page: string): readonly string[] {
  return [...page.matchAll(/<!-- output: ([\w-]+) -->\n```console\n/g)].map(([, name = '']) => name);
}
