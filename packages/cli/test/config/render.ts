/** What is made of the JSON Schema of a config: its page in docs, and its types. */

export interface Json {
  readonly title?: string;
  readonly description?: string;
  readonly type?: string;
  readonly const?: unknown;
  readonly enum?: readonly string[];
  readonly default?: unknown;
  readonly examples?: readonly unknown[];
  readonly required?: readonly string[];
  readonly properties?: Readonly<Record<string, Json>>;
  readonly additionalProperties?: Json | false;
  readonly items?: Json;
  readonly anyOf?: readonly Json[];
  readonly pattern?: string;
  readonly minimum?: number;
  readonly maximum?: number;
}

const DURATION = String.raw`(ms|s|m|h|d)$`;

function isDuration({ anyOf }: Json): boolean {
  return anyOf?.some(({ pattern }) => pattern?.includes(DURATION)) ?? false;
}

function isPort(json: Json): boolean {
  return json.anyOf?.some(({ minimum, maximum }) => minimum === 0 && maximum === 65_535) ?? false;
}

/** The maps among what a value may be. */
function formsOf({ anyOf = [] }: Json): readonly Json[] {
  return anyOf.filter(({ title }) => title !== undefined);
}

function isRedis(json: Json): boolean {
  return json.anyOf?.[0]?.type === 'string' && formsOf(json).length > 0;
}

/** `written.ts`: what people write, with the descriptions as comments. */
export function typesOf(schema: Json): string {
  const named = new Map<string, string>();

  function type(json: Json, indent: string): string {
    if (isDuration(json)) return 'Duration';
    if (isPort(json)) return 'number | string';
    if (json.const !== undefined) return JSON.stringify(json.const);
    if (json.enum !== undefined) return json.enum.map((value) => `'${value}'`).join(' | ');
    if (json.anyOf !== undefined) {
      const [first] = json.anyOf;
      if (isRedis(json)) return ['string', ...formsOf(json).map((one) => interfaceOf(one))].join(' | ');
      if (first?.type === 'string') return json.anyOf.map((one) => type(one, indent)).join(' | ');
      if (first?.type !== 'object') return first?.type === 'integer' ? 'number' : String(first?.type);
      return json.anyOf.map((one) => interfaceOf(one)).join(' | ');
    }
    if (json.type === 'array') {
      const item = type(json.items as Json, indent);
      return `readonly ${item.includes(' ') ? `(${item})` : item}[]`;
    }
    if (json.type === 'integer') return 'number';
    if (json.type !== 'object') return String(json.type);
    // What a field says of its own map has no words for each key.
    if (Object.values(json.properties ?? {}).some(({ description }) => description === undefined))
      return inlineOf(json);
    if (json.properties !== undefined) return `{\n${members(json, `${indent}  `)}${indent}}`;
    return `Readonly<Record<string, ${type(json.additionalProperties as Json, indent)}>>`;
  }

  function inlineOf({ properties = {}, required = [] }: Json): string {
    const keys = Object.entries(properties).map(
      ([key, value]) => `readonly ${key}${required.includes(key) ? '' : '?'}: ${type(value, '')}`,
    );
    return `{ ${keys.join('; ')} }`;
  }

  function interfaceOf(json: Json): string {
    const words = (json.title ?? '').split(' ').slice(1);
    const name = `Written${words.map((word) => word.charAt(0).toUpperCase() + word.slice(1)).join('')}`;
    named.set(name, `${comment(json.description ?? '', '')}export interface ${name} {\n${members(json, '  ')}}\n`);
    return name;
  }

  function members(json: Json, indent: string): string {
    return Object.entries(json.properties ?? {})
      .map(([key, value]) => {
        const needed = json.required?.includes(key) ?? false;
        const text =
          value.default === undefined ? '' : ` @default ${JSON.stringify(value.default).replaceAll('"', "'")}`;
        const about = comment(`${value.description}${text}`, indent);
        return `${about}${member(`${indent}readonly ${key}${needed ? '' : '?'}:`, type(value, indent), indent)}`;
      })
      .join('');
  }

  const root = `/** A config as it is written, in a module or a file. */\nexport interface LeaseholdConfig {\n${members(schema, '  ')}}\n`;
  const head = "// Made from the schema by test/config/generated.test.ts. Edit that one's descriptions.\n";
  return [`${head}import type { Duration } from '@leasehold/core';\n`, root, ...named.values()].join('\n');
}

/** A union that is too wide has a line for each part, as the formatter writes it. */
function member(head: string, text: string, indent: string): string {
  const line = `${head} ${text};`;
  if (line.length <= 120 || !text.includes(' | ') || text.includes('\n')) return `${line}\n`;
  const parts = text.split(' | ').map((part) => `\n${indent}  | ${part}`);
  return `${head}${parts.join('')};\n`;
}

/** As wide as the formatter leaves it. */
function comment(text: string, indent: string): string {
  const width = 116 - indent.length;
  if (text.length <= width) return `${indent}/** ${text} */\n`;
  const lines = [''];
  for (const word of text.split(' ')) {
    const line = lines.at(-1) as string;
    if (line.length + word.length < width) lines[lines.length - 1] = line === '' ? word : `${line} ${word}`;
    else lines.push(word);
  }
  return `${indent}/**\n${lines.map((line) => `${indent} * ${line}\n`).join('')}${indent} */\n`;
}

/** The part of `docs/config.md` that lists every key. */
export function keysOf(schema: Json): string {
  const parts: string[] = [];
  const titled = (title: string, about: string, json: Json): void => {
    parts.push(
      `### ${title}\n\n${about}\n\n| key | type | default | meaning |\n| --- | --- | --- | --- |\n${rows(json, '').join('')}`,
    );
  };
  const top = Object.entries(schema.properties ?? {});
  titled('At the top', 'What a config has.', {
    ...schema,
    properties: Object.fromEntries(top.map(([key, value]) => [key, { ...value, properties: {} }])),
  });
  for (const [key, value] of top) {
    if (value.properties !== undefined) titled(`\`${key}\``, value.description ?? '', value);
    if (typeof value.additionalProperties !== 'object') continue;
    for (const one of value.additionalProperties.anyOf ?? []) {
      titled(`\`${key}\`: ${lowerFirst(one.title ?? '')}`, one.description ?? '', one);
    }
  }
  const store = schema.properties?.['store']?.properties?.['redis'];
  if (store !== undefined) {
    parts.push(
      '### A Redis\n\nWhere a Redis is named (`store.redis`, `fences.*.redis`, `connection` of a queue) there is a URL, or one of these maps.\n',
    );
    for (const one of formsOf(store))
      titled(lowerFirst(one.title ?? '').replace(/^a/, 'A'), one.description ?? '', one);
  }
  return parts.join('\n');
}

function lowerFirst(text: string): string {
  return text.charAt(0).toLowerCase() + text.slice(1);
}

function rows(json: Json, prefix: string): string[] {
  return Object.entries(json.properties ?? {}).flatMap(([key, value]) => {
    const [about = '', otherwise] = (value.description ?? '').split(/ Default: (.*)\.$/);
    const needed = json.required?.includes(key) ?? false;
    const given = value.default === undefined ? '' : `\`${JSON.stringify(value.default).replaceAll('"', '')}\``;
    const examples = (value.examples ?? []).map((example) => `\`${JSON.stringify(example).replaceAll('"', '')}\``);
    const text = examples.length > 0 ? `${about} Such as ${examples.join(', ')}.` : about;
    const cells = [`\`${prefix}${key}\``, kindOf(value), needed ? '**required**' : (otherwise ?? given), text];
    const row = `| ${cells.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |\n`;
    return [row, ...rows(value, `${prefix}${key}.`)];
  });
}

function kindOf(json: Json): string {
  if (isDuration(json)) return 'time';
  if (isPort(json)) return 'port';
  if (json.const !== undefined) return `\`${JSON.stringify(json.const)}\``;
  if (json.enum !== undefined) return json.enum.map((value) => `\`${value}\``).join(' ');
  if (json.type === 'array') return 'list of texts';
  if (isRedis(json)) return 'URL or [map](#a-redis)';
  const kinds: Readonly<Record<string, string>> = { integer: 'whole number', number: 'number' };
  if (json.anyOf !== undefined) return kinds[json.anyOf[0]?.type ?? ''] ?? 'true or false';
  return json.type === 'object' ? 'map' : 'text';
}
