import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describe, expect, expectTypeOf, test } from 'vitest';
import { parse } from 'yaml';
import { z } from 'zod';

import { configJsonSchema, type LeaseholdConfig } from '../../src/index.ts';
import type { configSchema } from '../../src/config/schema.ts';
import { keysOf, typesOf, type Json } from './render.ts';

const again = 'to write it anew: npx vitest run --project unit packages/cli/test/config/generated.test.ts -u';
const page = fileURLToPath(new URL('../../../../docs/config.md', import.meta.url));
const MARK = '<!-- What follows is made from the schema, by packages/cli/test/config/generated.test.ts -->\n';

describe('what is made from the schema', () => {
  const schema = configJsonSchema() as Json;

  test('schema.json is the schema', async () => {
    await expect(`${JSON.stringify(schema, null, 2)}\n`, again).toMatchFileSnapshot('../../schema.json');
  });

  test('docs/config.md has every key, its default and its meaning', async () => {
    const head = readFileSync(page, 'utf8').split(MARK)[0] as string;
    await expect(`${head}${MARK}\n${keysOf(schema)}`, again).toMatchFileSnapshot(page);
  });

  test('the types of a config are those of the schema', async () => {
    await expect(typesOf(schema), again).toMatchFileSnapshot('../../src/config/written.ts');
    expectTypeOf<LeaseholdConfig>().toExtend<z.input<typeof configSchema>>();
  });

  test('schema.json takes what a config may be, variables included, and refuses what no editor should let pass', async () => {
    const editor = z.fromJSONSchema(schema as never);
    const example = parse(/```yaml\n([\s\S]*?)```/.exec(readFileSync(page, 'utf8'))?.[1] as string) as object;
    expect(editor.safeParse(example).error).toBeUndefined();
    const job = { every: '5m', handler: './a.js' };
    const withJob = (keys: object): object => ({ ...example, jobs: { job: { ...job, ...keys } } });
    for (const good of [{ every: 1000 }, { every: '${EVERY}' }, { isolate: 'process' }, { lease: { ttl: '1.5s' } }]) {
      expect(editor.safeParse(withJob(good)).error).toBeUndefined();
    }
    for (const bad of [
      { every: '5 min' },
      { leese: {} },
      { isolate: 'x' },
      { handler: 'a' },
      { lease: { ttl: true } },
    ]) {
      expect(editor.safeParse(withJob(bad)).success, JSON.stringify(bad)).toBe(false);
    }
    for (const key of ['version', 'store', 'jobs']) {
      expect(editor.safeParse({ ...example, [key]: undefined }).success, key).toBe(false);
    }
  });

  test('every key says what it means', () => {
    const silent: string[] = [];
    const visit = (json: Json, path: string): void => {
      for (const [key, value] of Object.entries(json.properties ?? {})) {
        if (!value.description?.endsWith('.')) silent.push(`${path}${key}`);
        visit(value, `${path}${key}.`);
      }
      for (const one of json.anyOf ?? []) visit(one, `${path}`);
      if (typeof json.additionalProperties === 'object') visit(json.additionalProperties, path);
    };
    visit(schema, '');
    expect(silent).toEqual([]);
  });
});
