import { z } from 'zod';

import { Fault } from './field.ts';
import { hintFor } from './hints.ts';
import { pathText, type Path, type Problem } from './problem.ts';
import { show } from './show.ts';
import type { Source } from './source.ts';

type Shaped = z.ZodObject<z.ZodRawShape>;

/** Checks parts of a config, and collects what is wrong, with its place and without what must not be shown. */
export class Judge {
  readonly problems: Problem[] = [];
  readonly #source: Source;
  readonly #unset: ReadonlySet<string>;

  /** `unset`: paths whose value is not known, so that nothing is said of it. */
  constructor(source: Source, unset: ReadonlySet<string>) {
    this.#source = source;
    this.#unset = unset;
  }

  /** The part as the settings have it, or undefined if anything in it is wrong. `others` says of which key it knows. */
  parse<S extends Shaped>(
    schema: S,
    value: unknown,
    path: Path,
    others: (key: string) => readonly [message: string, remedy?: string] | undefined = () => undefined,
  ): z.output<S> | undefined {
    const result = schema.safeParse(value);
    if (result.success && !this.hasUnset(path)) return result.data;
    for (const issue of result.error?.issues ?? []) this.#add(issue, schema, value, path, others);
    return undefined;
  }

  add(path: Path, message: string, remedy?: string, at: 'key' | 'value' = 'value'): void {
    if (!this.#unset.has(pathText(path))) this.problems.push(this.#source.problem(path, message, remedy, at));
  }

  /** A value in a message; `${VAR}` as it was written if part of it is the environment's. */
  shown(path: Path, value: unknown): string {
    const written = this.#source.written(path);
    return written === undefined ? show(value) : `from ${show(written).slice(1, -1)}`;
  }

  isHidden(path: Path): boolean {
    return this.#source.written(path) !== undefined;
  }

  /** Whether it stands in a file of text, as it is. */
  isLiteral(path: Path): boolean {
    return !this.isHidden(path) && this.#source.problem(path, '').line !== undefined;
  }

  /** Whether anything in it is not known. */
  hasUnset(path: Path): boolean {
    const start = pathText(path);
    return [...this.#unset].some((at) => at === start || at.startsWith(`${start}.`) || at.startsWith(`${start}[`));
  }

  #add(
    issue: z.core.$ZodIssue,
    schema: Shaped,
    value: unknown,
    root: Path,
    others: (key: string) => readonly [message: string, remedy?: string] | undefined,
  ): void {
    const inner = issue.path as Path;
    const path = [...root, ...inner];
    if (issue.code === 'unrecognized_keys') {
      const at = shapeAt(schema, inner);
      for (const key of issue.keys) {
        const said = inner.length === 0 ? others(key) : undefined;
        const [message, remedy] = said ?? ['is not known here', hintFor(key, Object.keys(at), mapsIn(at))];
        this.add([...path, key], message, remedy, 'key');
      }
      return;
    }
    const wrong = inner.reduce<unknown>((at, key) => (at as Record<PropertyKey, unknown> | undefined)?.[key], value);
    const fault: unknown = issue.code === 'custom' ? issue.params?.['fault'] : undefined;
    if (fault instanceof Fault) this.#addFault(fault, wrong, path);
    else {
      const rule = `${ruleOf(issue)}${contentOf(shapeAt(schema, inner))}`;
      this.add(path, wrong === undefined ? `is missing: it ${rule}` : `is ${this.shown(path, wrong)}: ${rule}`);
    }
  }

  #addFault({ rule, plain, remedy, secret, asIs }: Fault, wrong: unknown, path: Path): void {
    const hidden = this.isHidden(path);
    const text = hidden ? (plain ?? rule) : rule;
    const help = hidden ? undefined : remedy;
    if (wrong === undefined) return this.add(path, `is missing: it ${text}`);
    if (asIs) return this.add(path, hidden ? `${this.shown(path, wrong)}: ${text}` : text, help);
    if (secret) return this.add(path, hidden ? `is ${this.shown(path, wrong)}: ${text}` : text, help);
    this.add(path, `is ${this.shown(path, wrong)}: ${text}`, help);
  }
}

function ruleOf(issue: z.core.$ZodIssue): string {
  if (issue.code !== 'invalid_type') return issue.message;
  if (issue.expected === 'array') return 'must be a list';
  if (issue.expected === 'record') return 'must be a map, its keys the names';
  return issue.expected === 'object' ? 'must be a map' : issue.message;
}

/** The keys that a map must have. */
function contentOf(shape: z.ZodRawShape): string {
  const needed = Object.keys(shape).filter((key) => (shape[key] as z.ZodType).meta()?.['jsonRequired'] === true);
  return needed.length === 0 ? '' : ` with ${needed.join(', ')}`;
}

function unwrapped(schema: unknown): unknown {
  let at = schema;
  while (at instanceof z.ZodOptional || at instanceof z.ZodDefault) at = at.unwrap();
  return at;
}

function shapeAt(schema: Shaped, path: Path): z.ZodRawShape {
  let at: unknown = schema;
  for (const key of path) {
    at = unwrapped(at);
    if (at instanceof z.ZodObject) at = (at.shape as z.ZodRawShape)[key as string];
  }
  at = unwrapped(at);
  return at instanceof z.ZodObject ? at.shape : {};
}

function mapsIn(shape: z.ZodRawShape): ReadonlyMap<string, readonly string[]> {
  const maps = new Map<string, readonly string[]>();
  for (const [key, schema] of Object.entries(shape)) {
    const inner = unwrapped(schema);
    if (inner instanceof z.ZodObject) maps.set(key, Object.keys(inner.shape));
  }
  return maps;
}
