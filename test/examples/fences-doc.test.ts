import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';

const read = (path: string): string => readFileSync(new URL(`../../${path}`, import.meta.url), 'utf8');

test('the recipes of docs/fences.md are those that are run against the libraries', () => {
  const blocks = [...read('docs/fences.md').matchAll(/^```ts\n(export async function .*?)^```$/gms)];
  const recipes = read('test/recipes/recipes.ts');
  expect(blocks).toHaveLength(6);
  for (const [, block] of blocks) expect(recipes).toContain(block);
});
