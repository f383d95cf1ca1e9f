import { checkResourceName, ConfigError } from '@leasehold/core';

import { kindOfValue } from './show.ts';
import { FORBIDDEN_KEYS } from './source.ts';

/** What a template may name of a job of a queue. */
export interface TemplateJob {
  readonly name: string;
  readonly id?: string | undefined;
  readonly data: unknown;
}

/** The name of a resource with places for what a job carries: `customer:{data.customerId}`. */
export interface ResourceTemplate {
  /** As it was written. */
  readonly text: string;
  /** `data.customerId`; empty for a name that is the same for all jobs. */
  readonly fields: readonly string[];
  /** Whether a `:` is between any two fields: it is in no value, and so tells where one ends. */
  readonly isSeparated: boolean;
  /**
   * The resource of this job. Throws `ConfigError` (option `lease.resource`) where the job has no such field, or one that cannot be part of a name:
   * only texts that are not empty and whole numbers up to 2^53 can. `%`, `:`, `{`, `}` and control characters in values
   * become `%` and their hex digits, so that two values of a field never make one name, and neither do those of several fields with a `:`
   * between them.
   */
  resourceOf(job: TemplateJob): string;
}

/** A template that cannot be read. */
export interface TemplateFault {
  /** Within the text, from 1. */
  readonly column: number;
  readonly message: string;
  readonly remedy: string;
}

const IDENTIFIER = /^[A-Za-z_][A-Za-z0-9_]*$/;
const ROOTS: ReadonlySet<string> = new Set(['data', 'name', 'id']);
// oxlint-disable-next-line no-control-regex -- these cannot be in a name
const ENCODED = /[%:{}\u0000-\u001f\u007f-\u009f\u2028\u2029]/g;

/** Whether the text has what only a template has. */
export function hasBraces(text: string): boolean {
  return /[{}]/.test(text);
}

/** Reads a template once. Gives what is wrong with it rather than throw. */
export function parseTemplate(text: string): ResourceTemplate | TemplateFault {
  const parts: (string | readonly string[])[] = [];
  let at = 0;
  while (at < text.length) {
    const brace = text.slice(at).search(/[{}]/);
    const next = brace < 0 ? text.length : at + brace;
    if (next > at) parts.push(text.slice(at, next));
    if (brace < 0) break;
    const fault = (message: string, remedy: string): TemplateFault => ({ column: next + 1, message, remedy });
    const example = "write a field of the job in braces, such as '{data.customerId}'";
    if (text[next] === '}') return fault('has a } without a {', example);
    const end = text.indexOf('}', next);
    if (end < 0) return fault('has a { without a }', example);
    const inner = text.slice(next + 1, end);
    if (inner.startsWith('{')) return fault('has two braces', 'one is enough: {data.customerId}');
    const path = inner.split('.');
    const wrong = faultOf(path, inner);
    if (wrong !== undefined) return fault(wrong, example);
    parts.push(path);
    at = end + 1;
  }
  const fields = parts.filter((part) => typeof part !== 'string').map((path) => path.join('.'));
  return {
    text,
    fields,
    isSeparated: !/\}[^:{]*\{/.test(text),
    resourceOf(job) {
      const name = parts.map((part) => (typeof part === 'string' ? part : encoded(part, job))).join('');
      checkResourceName('lease.resource', name);
      return name;
    },
  };
}

function faultOf(path: readonly string[], inner: string): string | undefined {
  const bad = path.find((key) => !IDENTIFIER.test(key));
  if (inner === '') return 'has braces with nothing in them';
  if (bad !== undefined) return 'has something else than names and dots in its braces';
  if (path.some((key) => FORBIDDEN_KEYS.has(key))) return 'names a field that no job has';
  const [root = '', ...others] = path;
  if (!ROOTS.has(root)) return `begins with '${root}' in its braces: there are data, name and id`;
  if (root === 'data' ? others.length === 0 : others.length > 0) {
    return root === 'data' ? 'names the data as a whole' : `names a field of '${root}', which has none`;
  }
  return undefined;
}

function encoded(path: readonly string[], job: TemplateJob): string {
  const value = valueAt(path, job);
  if (typeof value === 'string' && value !== '') {
    if (/\p{Surrogate}/u.test(value)) throw refused(path, 'holds half a surrogate pair');
    return value.replace(ENCODED, encodeURIComponent);
  }
  if (typeof value === 'number' && Number.isSafeInteger(value)) return String(value);
  if (value === undefined || value === null) throw refused(path, 'is missing in this job');
  if (value === '') throw refused(path, 'is empty in this job');
  const what = typeof value === 'number' ? 'a number that is not whole, or too large' : kindOfValue(value);
  throw refused(path, `is ${what} in this job`);
}

/** By properties of its own alone: what is inherited was not sent with the job. */
function valueAt(path: readonly string[], job: TemplateJob): unknown {
  let at: unknown = { name: job.name, id: job.id, data: job.data };
  for (const key of path) {
    if (typeof at !== 'object' || at === null || Array.isArray(at) || !Object.hasOwn(at, key)) return undefined;
    at = (at as Readonly<Record<string, unknown>>)[key];
  }
  return at;
}

function refused(path: readonly string[], what: string): ConfigError {
  const rule = 'a text that is not empty or a whole number is needed, or all jobs would share one lease';
  return new ConfigError('lease.resource', `{${path.join('.')}} ${what}; ${rule}`);
}
