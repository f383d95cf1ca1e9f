import { existsSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from 'vitest';

const root = fileURLToPath(new URL('../../', import.meta.url));
const read = (file: string): string => readFileSync(`${root}${file}`, 'utf8');

/** How many questions stand under each heading of an operator's runbook for stale locks. */
const questions = {
  Symptoms: 5,
  'Likely causes': 6,
  'First ten minutes': 6,
  'Evidence to collect': 5,
  'Where to look': 5,
  'Diagnostic steps': 7,
  'Common mistakes': 6,
  'Safe fixes': 6,
  'Prove the fix': 6,
  Prevention: 5,
  'Safe commands': 8,
} as const;

interface Row {
  readonly heading: string;
  readonly number: number;
  readonly answers: readonly string[];
}

function rowsOf(page: string): readonly Row[] {
  return page
    .split(/^## /m)
    .slice(1)
    .flatMap((section) => {
      const heading = section.slice(0, section.indexOf('\n'));
      const rows = [...section.matchAll(/^\| *(\d+) *\|[^|]*\|([^|]*)\|$/gm)];
      return rows.map(([, number, cell = '']) => ({
        heading,
        number: Number(number),
        answers: [...cell.matchAll(/`([^`]+)`/g)].map(([, answer = '']) => answer),
      }));
    });
}

/** As GitHub makes them of headings. */
function anchorsOf(page: string): readonly string[] {
  return [...page.matchAll(/^#+ (.+)$/gm)].map(([, heading = '']) =>
    heading
      .toLowerCase()
      .replace(/[^\p{L}\p{N} _-]/gu, '')
      .replaceAll(' ', '-'),
  );
}

const commands = new Set([...read('docs/cli.md').matchAll(/^## leasehold ([a-z-]+)/gm)].map(([, name]) => name));
const metrics = new Set([...read('docs/instruments.md').matchAll(/`(leasehold_[a-z_]+)`/g)].map(([, name]) => name));
const alerts = new Set(
  [...read('packages/core/alerts/leasehold.yml').matchAll(/alert: (\w+)/g)].map(([, name]) => name),
);

/** Whether there is such a thing. */
function isThere(answer: string): boolean {
  const command = /^leasehold ([a-z-]+)$/.exec(answer)?.[1];
  if (command !== undefined) return commands.has(command);
  if (answer.startsWith('leasehold_')) return metrics.has(answer);
  const [file = '', anchor] = answer.split('#');
  if (/^(docs|test)\//.test(answer))
    return existsSync(`${root}${file}`) && (anchor === undefined || anchorsOf(read(file)).includes(anchor));
  return alerts.has(answer);
}

describe('the table of questions and answers', () => {
  const rows = rowsOf(read('docs/answers.md'));

  test.each(Object.entries(questions))(
    'has each question under %s, in order, each with an answer',
    (heading, count) => {
      const own = rows.filter((row) => row.heading === heading);
      expect(own.map(({ number }) => number)).toEqual(Array.from({ length: count }, (_, index) => index + 1));
      expect(own.filter(({ answers }) => answers.length === 0)).toEqual([]);
    },
  );

  test('names only what exists', () => {
    const missing = rows.flatMap(({ heading, number, answers }) =>
      answers.filter((answer) => !isThere(answer)).map((answer) => `${heading} ${number}: ${answer}`),
    );
    expect(missing).toEqual([]);
    expect(
      ['leasehold nonsense', 'leasehold_nonsense', 'NoAlert', 'docs/errors.md#nonsense', 'test/none.ts'].filter(
        isThere,
      ),
    ).toEqual([]);
  });
});

test('the runbook walks the same headings in the same order', () => {
  const headings = [...read('docs/runbook.md').matchAll(/^## (.+)$/gm)].map(([, heading]) => heading);
  expect(headings).toEqual(Object.keys(questions));
});
