import { readdirSync, readFileSync } from 'node:fs';
import { expect, test } from 'vitest';

const read = (path: string): string => readFileSync(new URL(`../../${path}`, import.meta.url), 'utf8');

const blocks = [...read('README.md').matchAll(/^```ts\n(.*?)^```$/gms)].map(([, block]) => block as string);

test('the first example of the README is examples/run.ts', () => {
  expect(blocks[0]).toBe(read('examples/run.ts'));
  expect(blocks[0]?.split('\n').filter((line) => line.trim() !== '').length).toBeLessThanOrEqual(16);
});

test('each further example is part of one that is run', () => {
  const examples = readdirSync(new URL('../../examples/', import.meta.url)).filter((file) => file.endsWith('.ts'));
  expect(blocks.length).toBeGreaterThan(2);
  for (const block of blocks)
    expect(examples.filter((file) => read(`examples/${file}`).includes(block))).toHaveLength(1);
});
