import { z } from 'zod';

import { configSchema } from './schema.ts';

/** The schema of a config as JSON Schema (draft 2020-12), for editors: `schema.json` of this package. */
export function configJsonSchema(): Readonly<Record<string, unknown>> {
  return { $schema: 'https://json-schema.org/draft/2020-12/schema', ...ordered(schemaOf(configSchema)) };
}

function schemaOf(its: z.ZodType): Json {
  const { $schema: _, ...schema } = z.toJSONSchema(its, {
    io: 'input',
    target: 'draft-2020-12',
    unrepresentable: 'any',
    override: ({ zodSchema, jsonSchema }) => describe(zodSchema as unknown as z.ZodType, jsonSchema as Json),
  });
  return schema;
}

type Json = Record<string, unknown>;

/** What our fields and keys say of themselves, which zod does not know what to make of. */
function describe(schema: z.ZodType, json: Json): void {
  const meta = schema.meta() ?? {};
  Object.assign(json, meta['json']);
  if (Array.isArray(meta['jsonForms'])) {
    const { type, pattern } = json;
    for (const key of ['type', 'pattern', 'jsonForms']) delete json[key];
    json['anyOf'] = [{ type, pattern }, ...meta['jsonForms'].map((form) => schemaOf(form as z.ZodType))];
  }
  for (const key of ['json', 'jsonDefault', 'jsonRequired']) delete json[key];
  if ('jsonDefault' in meta) json['default'] = meta['jsonDefault'];
  if (meta['examples'] !== undefined) json['examples'] = meta['examples'];
  if (!(schema instanceof z.ZodObject)) return;
  const shape = schema.shape as Readonly<Record<string, z.ZodType>>;
  const needed = Object.keys(shape).filter((key) => shape[key]?.meta()?.['jsonRequired'] === true);
  if (needed.length > 0) json['required'] = needed;
  else delete json['required'];
}

/** The head of each schema first, for readers. */
function ordered(value: unknown): Json {
  const order = [
    'title',
    'description',
    'type',
    'default',
    'examples',
    'required',
    'additionalProperties',
    'properties',
  ];
  const sort = (at: unknown, isSchema: boolean): unknown => {
    if (Array.isArray(at)) return at.map((item) => sort(item, isSchema));
    if (typeof at !== 'object' || at === null) return at;
    const entries = Object.entries(at);
    const rank = ([key]: [string, unknown]): number => (order.includes(key) ? order.indexOf(key) : order.length);
    const sorted = isSchema ? entries.toSorted((a, b) => rank(a) - rank(b)) : entries;
    return Object.fromEntries(
      sorted.map(([key, item]) => [key, sort(item, key !== 'properties' && key !== 'examples')]),
    );
  };
  return sort(value, true) as Json;
}
