import { invariants } from '../../src/testing/history/check.ts';
import { seededHistories } from '../testing/history/bugs.ts';
import { lingeringHistories } from '../testing/history/linger-bugs.ts';
import { MUTATIONS, type Mutation } from './bug.ts';
import { seededBugs } from './bugs.ts';

/** All rules with the errors that break them, and all mutations with the rules that catch them, as a page. */
export function seededBugsPage(): string {
  return `${[
    '# Seeded bugs',
    '',
    'Written by `bugs.test.ts`, which fails if a rule or a mutation is without its bug, or a bug is not found within 500 seeds.',
    'The rules are those of `packages/core/src/testing/history`. V1 and V2 judge the runs, not the product; `check.test.ts` has',
    'runs that break them.',
    '',
    ...table(['rule', 'what must hold', 'in the simulator', 'as a history by hand'], rules()),
    '',
    '## Mutations',
    '',
    ...table(['mutation', 'seeded as', 'caught by'], mutations()),
    '',
  ].join('\n')}`;
}

function rules(): readonly (readonly string[])[] {
  return invariants
    .filter(({ id }) => !id.startsWith('V'))
    .map(({ id, rule }) => [
      id,
      rule,
      namesOf(seededBugs, id),
      namesOf([...seededHistories, ...lingeringHistories], id),
    ]);
}

function mutations(): readonly (readonly string[])[] {
  return (Object.keys(MUTATIONS) as Mutation[]).map((name) => {
    const bugs = seededBugs.filter(({ mutation }) => mutation === name);
    return [MUTATIONS[name], bugs.map(({ does }) => does).join('; '), bugs.map(({ foundBy }) => foundBy).join(', ')];
  });
}

function namesOf(bugs: readonly { readonly does: string; readonly foundBy: string }[], id: string): string {
  return bugs
    .filter(({ foundBy }) => foundBy === id)
    .map(({ does }) => does)
    .join('; ');
}

function table(heads: readonly string[], rows: readonly (readonly string[])[]): readonly string[] {
  return [heads, heads.map(() => '---'), ...rows].map((cells) => `| ${cells.join(' | ')} |`);
}
