import { writeSync } from 'node:fs';
import { stat } from 'node:fs/promises';
import { pathToFileURL } from 'node:url';

import { EXIT } from '../exit.ts';
import { faultOfKind } from './module-kind.ts';
import { formatProblems, shorten, type Path, type Problem } from './problem.ts';
import { kindOfValue } from './show.ts';
import { FORBIDDEN_KEYS, MAX_DEPTH, MAX_VALUES, type Raw, type Source } from './source.ts';

/** Of a module that has ended the process. */
export const ENDED = 'ended the process while it was loaded';
export const ENDED_REMEDY = 'a module that cannot be used throws; it does not call process.exit()';

/** Imports a config that is a module, and copies the plain values of its default export. */
export async function readModule(file: string, source: Source): Promise<Raw> {
  const module = await importFile(file, source.problem([], ENDED, ENDED_REMEDY));
  if ('fault' in module) {
    const [message, remedy] = module.fault;
    return { value: undefined, problems: [source.problem([], message, remedy)] };
  }
  const config: unknown = module.exports['default'];
  if (typeof config !== 'object' || config === null) {
    const message = config === undefined ? 'has no default export' : `exports ${kindOfValue(config)} as its default`;
    return { value: undefined, problems: [source.problem([], message, 'write: export default defineConfig({ … })')] };
  }
  return copyOf(config, source);
}

type Imported =
  | { readonly exports: Readonly<Record<string, unknown>> }
  | { readonly fault: readonly [message: string, remedy?: string] };

export async function isFile(path: string): Promise<boolean> {
  return stat(path).then(
    (found) => found.isFile(),
    () => false,
  );
}

/** How long the top of a module may take. Generous: what takes long belongs into the handler. */
const LOAD_LIMIT_MS = 10_000;
/** Exit codes from here on are those of signals, which have nothing to do with what is loaded meanwhile. */
const FIRST_OF_SIGNALS = 128;

/**
 * A module, or why there is none. Nothing can keep a module from ending the process while it is loaded; then the process ends with 2, and
 * writes `ended` to the standard error.
 */
export async function importFile(file: string, ended: Problem, limitMs = LOAD_LIMIT_MS): Promise<Imported> {
  // An import that is missing says the same, be it this file or one that it imports.
  if (!(await isFile(file))) return { fault: ['is not there'] };
  const onExit = (code: number): void => {
    if (code >= FIRST_OF_SIGNALS) return;
    // A check that was not finished must not look like one that found nothing.
    process.exitCode = EXIT.usage;
    try {
      // What a stream has not written by now it never will.
      writeSync(process.stderr.fd, formatProblems([ended]));
    } catch {
      // Nobody reads it. The exit code says that something is wrong.
    }
  };
  process.on('exit', onExit);
  // Keeps the process alive as well: Node ends one that only waits for a module, with 13 and without a word.
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<Imported>((resolve) => {
    const fault = [
      `did not finish loading within ${limitMs / 1000} s`,
      'let what is awaited outside its functions come to an end',
    ] as const;
    timer = setTimeout(() => resolve({ fault }), limitMs);
  });
  try {
    const loaded = import(pathToFileURL(file).href) as Promise<Readonly<Record<string, unknown>>>;
    return await Promise.race([loaded.then((exports) => ({ exports })), late]);
  } catch (error) {
    return { fault: faultOf(error, file) };
  } finally {
    clearTimeout(timer);
    process.off('exit', onExit);
  }
}

/** What an import failed by, for somebody who runs jobs. */
export function faultOf(error: unknown, file: string): readonly [message: string, remedy?: string] {
  const { code, message } =
    error instanceof Error
      ? (error as NodeJS.ErrnoException)
      : { code: undefined, message: `threw ${kindOfValue(error)}` };
  if (code === 'ERR_UNKNOWN_FILE_EXTENSION' && /\.[cm]?ts$/.test(file)) {
    const needs = 'Node 22.18 or later reads it; or start Node with a loader: NODE_OPTIONS="--import tsx"';
    return [`is TypeScript, which Node ${process.versions.node} does not read by itself`, needs];
  }
  if (code === 'ERR_UNSUPPORTED_TYPESCRIPT_SYNTAX') {
    return ['has TypeScript that is more than types', 'start Node with a loader: NODE_OPTIONS="--import tsx"'];
  }
  const kind = faultOfKind(error, file);
  if (kind !== undefined) return kind;
  const [line = ''] = message.split('\n');
  return [`cannot be imported: ${shorten(line)}`];
}

/** Only plain values: what has a life of its own does not belong in a config, and getters are read once. */
export function copyOf(config: object, source: Source): Raw {
  const problems: Problem[] = [];
  let values = 0;

  function copy(value: unknown, path: Path, depth: number): unknown {
    if (typeof value !== 'object' || value === null) return value;
    if (depth > MAX_DEPTH || ++values > MAX_VALUES) {
      if (problems.length === 0) problems.push(source.problem(path.slice(0, 8), tooMuch(depth)));
      return undefined;
    }
    if (Array.isArray(value)) return value.map((item, index) => copy(item, [...path, index], depth + 1));
    const plain: Record<string, unknown> = {};
    for (const key of Object.keys(value)) {
      const at = [...path, key];
      if (FORBIDDEN_KEYS.has(key)) {
        problems.push(source.problem(at, 'is a key that is not allowed', 'choose another name'));
        continue;
      }
      const item = copy((value as Readonly<Record<string, unknown>>)[key], at, depth + 1);
      // Left out and undefined are the same in a module.
      if (item !== undefined) plain[key] = item;
    }
    return plain;
  }

  try {
    return { value: copy(config, [], 0), problems };
  } catch (error) {
    const [message] = faultOf(error, '');
    return { value: undefined, problems: [source.problem([], message)] };
  }
}

function tooMuch(depth: number): string {
  return depth > MAX_DEPTH
    ? `is nested too deeply: more than ${MAX_DEPTH} levels, or a value that holds itself`
    : 'has too many values to be a config';
}
