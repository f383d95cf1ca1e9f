import { ConfigError } from '@leasehold/core';

import type { LoadedConfig } from './load.ts';
import { kindOfValue } from './show.ts';
import { Source } from './source.ts';

/** Whether it is what `loadConfig` and `parseConfig` of this package give. */
export function isLoaded(config: unknown): config is LoadedConfig {
  return isObject(config) && 'source' in config && config.source instanceof Source;
}

/** Throws `ConfigError` for what is neither that nor a config written out, which what is read of it says with its place. */
export function checkConfigKind(config: unknown): void {
  if (isLoaded(config)) return;
  const fail = (what: string, remedy: string): ConfigError =>
    new ConfigError('config', `is ${what}: must be a config that was loaded or written out; ${remedy}`);
  if (typeof config === 'string') {
    // A text that is no path may be a whole config, or an address with a password.
    const path = /^[\w./\\-]{1,80}$/.test(config) ? `'${config}'` : undefined;
    throw fail(path ?? 'a text', `for a file give await loadConfig(${path ?? 'file'})`);
  }
  if (config instanceof URL) throw fail('a URL', 'for a file give await loadConfig(fileURLToPath(url))');
  if (!isObject(config) || Array.isArray(config)) throw fail(kindOfValue(config), 'give await loadConfig(file)');
  if ('then' in config) throw fail('a promise', 'await what loadConfig gives');
  if ('settings' in config && 'source' in config) {
    throw fail('one of another copy of leasehold', 'load it by loadConfig of the package that runs it');
  }
}

/** Throws `ConfigError` for what is no config that was loaded. */
export function checkLoaded(config: unknown): void {
  checkConfigKind(config);
  if (isLoaded(config)) return;
  throw new ConfigError(
    'config',
    'is one written out: must be loaded; give parseConfig(config), or await loadConfig(file)',
  );
}

/** Throws `ConfigError` for what is no path of a file. */
export function checkFile(file: unknown): void {
  if (typeof file === 'string' && /^[a-z][a-z\d+.-]*:\/\//i.test(file)) {
    const rule = 'is an address, not shown because it may have a password: must be the path of a config';
    throw new ConfigError('file', `${rule}; name a file, such as leasehold.yaml, and a server with --url`);
  }
  if (typeof file === 'string' && file !== '') return;
  const what = file === '' ? 'empty' : file instanceof URL ? 'a URL' : kindOfValue(file);
  const remedy = file instanceof URL ? 'give fileURLToPath(url)' : 'for a config written out there is parseConfig';
  throw new ConfigError('file', `is ${what}: must be the path of a config; ${remedy}`);
}

function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null;
}
