import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';

const read = (path: string): string => readFileSync(new URL(`../../${path}`, import.meta.url), 'utf8');

test('the first example of the README is examples/run.ts', () => {
  const [, block] = /^```ts\n(.*?)^```$/ms.exec(read('README.md')) ?? [];
  expect(block).toBe(read('examples/run.ts'));
});
