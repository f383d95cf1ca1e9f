import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describe, expect, expectTypeOf, test } from 'vitest';
import type { z } from 'zod';

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
