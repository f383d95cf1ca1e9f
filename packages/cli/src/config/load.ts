import { readFile, stat } from 'node:fs/promises';
import { extname, join, resolve } from 'node:path';

import { check } from './check.ts';
import { checkFile } from './loaded.ts';
import type { NamedCode } from './handlers.ts';
import { interpolate, type Environment } from './env.ts';
import { readJson } from './json.ts';
import { copyOf, isFile, readModule } from './module.ts';
import { ConfigFileError, type Problem } from './problem.ts';
import type { Settings } from './settings.ts';
import { CONFIG_FILES } from './file-names.ts';
import { sorted, Source, type Raw } from './source.ts';
import type { LeaseholdConfig } from './written.ts';
import { readYaml } from './yaml.ts';

const MAX_BYTES = 1_048_576;

/** A config that can be used. */
export interface LoadedConfig {
  readonly settings: Settings;
  /** The folder that handlers are relative to. */
  readonly folder: string;
  /** Says where in the file something is. */
  readonly source: Source;
}

/** A config as it was read. */
export interface Reading {
  /** Undefined if there is a problem. */
  readonly config: LoadedConfig | undefined;
  readonly problems: readonly Problem[];
  /** The code that its jobs name, also if it cannot be used. */
  readonly code: NamedCode;
}

export interface LoadOptions {
  /** For `${VAR}`. @default process.env */
  readonly env?: Environment | undefined;
}

export interface ParseOptions extends LoadOptions {
  /** What handlers are relative to. @default the working directory */
  readonly folder?: string | undefined;
}

/**
 * Reads and checks a config: `.yaml`, `.yml`, `.json`, or a module (`.js`, `.mjs`, `.ts`, `.mts`) with a default export. Handlers are not looked at
 * (`resolveHandlers`). Throws `ConfigFileError` with everything that is wrong, and `ConfigError` for what is no path.
 */
export async function loadConfig(file: string, options: LoadOptions = {}): Promise<LoadedConfig> {
  return sound(await readConfigFile(file, options));
}

/** As `loadConfig`, for who has more to say of it than that it cannot be used. Rejects for no config. */
export async function readConfigFile(file: string, { env = process.env }: LoadOptions = {}): Promise<Reading> {
  checkFile(file);
  const source = new Source(file);
  const raw = await read(file, source);
  return finished(raw, source, env, resolve(file, '..'));
}

/** Checks a config that code has made. Throws `ConfigFileError` with everything that is wrong. */
export function parseConfig(config: LeaseholdConfig, options: ParseOptions = {}): LoadedConfig {
  return sound(readConfigValue(config, options));
}

/** As `parseConfig`, for who has more to say of it than that it cannot be used. Throws for no config. */
export function readConfigValue(
  config: LeaseholdConfig,
  { env = process.env, folder = process.cwd() }: ParseOptions = {},
): Reading {
  const source = new Source(undefined);
  const raw = typeof config === 'object' && config !== null ? copyOf(config, source) : { value: config, problems: [] };
  return finished(raw, source, env, folder);
}

/**
 * The config in a folder, under one of the names of `CONFIG_FILES`. Throws `ConfigFileError` if there is none, or more than one, because nobody
 * could tell which of them runs.
 */
export async function findConfig(folder: string): Promise<string> {
  const there = await Promise.all(
    CONFIG_FILES.map(async (name) => ((await isFile(join(folder, name))) ? name : undefined)),
  );
  const found = there.filter((name) => name !== undefined);
  const [first] = found;
  const fail = (message: string, remedy: string): ConfigFileError => {
    const which = folder === '.' ? 'this folder' : folder;
    return new ConfigFileError([new Source(undefined).problem([], `${which} has ${message}`, remedy)]);
  };
  if (first === undefined) {
    throw fail(`no config (none of ${CONFIG_FILES.join(', ')})`, 'name a file, or write one with leasehold init');
  }
  if (found.length > 1) throw fail(found.join(' and '), 'name the one that is meant');
  return join(folder, first);
}

function sound({ config, problems }: Reading): LoadedConfig {
  if (config === undefined) throw new ConfigFileError(problems);
  return config;
}

function finished(raw: Raw, source: Source, env: Environment, folder: string): Reading {
  if (raw.value === undefined && raw.problems.length > 0) {
    return { config: undefined, problems: sorted(raw.problems), code: { handlers: [], folder, source } };
  }
  const { value, problems: ofEnv, unset } = interpolate(raw.value, env, source);
  const unknown = new Set([...unset, ...(raw.unread ?? [])]);
  const { settings, problems, handlers } = check(value, source, unknown, resolve(folder));
  const all = sorted([...raw.problems, ...ofEnv, ...problems]);
  const config = settings === undefined || all.length > 0 ? undefined : { settings, folder, source };
  return { config, problems: all, code: { handlers, folder, source } };
}

async function read(file: string, source: Source): Promise<Raw> {
  const kind = extname(file).toLowerCase();
  const fail = (message: string, remedy?: string): Raw => ({
    value: undefined,
    problems: [source.problem([], message, remedy)],
  });
  if (!['.yaml', '.yml', '.json', '.js', '.mjs', '.cjs', '.ts', '.mts', '.cts'].includes(kind)) {
    return fail(`has the ending ${kind === '' ? 'of no kind' : kind}`, 'a config is .yaml, .json, .js or .ts');
  }
  let bytes: Uint8Array;
  try {
    const found = await stat(file);
    // A pipe would be waited for, and a device may never end.
    if (!found.isFile() && !found.isDirectory()) return fail('is no file', 'a config is .yaml, .json, .js or .ts');
    if (found.size > MAX_BYTES) return fail(`has ${found.size} bytes: a config has at most ${MAX_BYTES}`);
    bytes = await readFile(file);
  } catch (error) {
    return fail(notRead(error as NodeJS.ErrnoException), `name a file, such as ${CONFIG_FILES[0]}`);
  }
  if (!['.yaml', '.yml', '.json'].includes(kind)) return readModule(resolve(file), source);
  let text: string;
  try {
    text = new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch {
    return fail('is no text in UTF-8', 'save it as UTF-8');
  }
  return kind === '.json' ? readJson(text, source) : readYaml(text, source);
}

function notRead({ code, message }: NodeJS.ErrnoException): string {
  if (code === 'ENOENT') return 'is not there';
  return code === 'EISDIR' ? 'is a folder' : `cannot be read: ${code ?? message}`;
}
