import { resolve } from 'node:path';

import type { NamedHandler } from './check.ts';
import type { LoadedConfig } from './load.ts';
import { ENDED, ENDED_REMEDY, importFile } from './module.ts';
import { checkLoaded } from './loaded.ts';
import { nearest } from './nearest.ts';
import { ConfigFileError, type Problem } from './problem.ts';
import { sorted, type Source } from './source.ts';

/** What a config names as the handler of a job. What it is called with is the business of the one who runs it. */
export type Handler = (...args: never[]) => unknown;

/**
 * Imports the handlers of a config, each file once, and gives them by the names of their jobs. Throws `ConfigFileError` with everything
 * that is wrong: files that are not there, fail or are not loaded within 10 s, and exports that are none or no function. Only `jobs`, if they are given.
 * A file that ends the process while it is loaded is named on the standard error, and the exit code is 2.
 */
export async function resolveHandlers(
  config: LoadedConfig,
  jobs?: readonly string[],
): Promise<ReadonlyMap<string, Handler>> {
  checkLoaded(config);
  const { settings, folder, source } = config;
  const named = settings.jobs.filter(({ name }) => jobs?.includes(name) ?? true);
  const { handlers, problems } = await importHandlers({ handlers: named, folder, source });
  if (problems.length > 0) throw new ConfigFileError(problems);
  return handlers;
}

/** The code that jobs name, and what it is relative to. */
export interface NamedCode {
  readonly handlers: readonly NamedHandler[];
  readonly folder: string;
  readonly source: Source;
}

interface Imported {
  readonly handlers: ReadonlyMap<string, Handler>;
  readonly problems: readonly Problem[];
}

/** Those that can be imported, each file once, and what is wrong with the others. */
export async function importHandlers({ handlers: named, folder, source }: NamedCode): Promise<Imported> {
  const handlers = new Map<string, Handler>();
  const problems: Problem[] = [];
  const imports = new Map<string, ReturnType<typeof importFile>>();
  for (const { name, handler } of named) {
    const file = resolve(folder, handler.module);
    const at = ['jobs', name, 'handler'];
    const written = source.written(at);
    const which = written === undefined ? `'${handler.module}'` : `the file from ${written}`;
    const importing = imports.get(file) ?? importFile(file, source.problem(at, `${which} ${ENDED}`, ENDED_REMEDY));
    imports.set(file, importing);
    const module = await importing;
    if ('fault' in module) {
      const [said, remedy] = module.fault;
      const message = written === undefined ? said : 'cannot be imported';
      problems.push(source.problem(at, `${which} ${message}`, remedy));
      continue;
    }
    const { exports } = module;
    const exported: unknown = Object.hasOwn(exports, handler.exported) ? exports[handler.exported] : undefined;
    if (typeof exported === 'function') {
      handlers.set(name, exported as Handler);
    } else if (written !== undefined) {
      problems.push(source.problem(at, `${which} does not export such a function`));
    } else if (exported !== undefined) {
      problems.push(source.problem(at, `${which} exports '${handler.exported}', which is no function`));
    } else {
      problems.push(
        source.problem(at, `${which} does not export ${nameOf(handler.exported)}`, remedyOf(handler.exported, exports)),
      );
    }
  }
  return { handlers, problems: sorted(problems) };
}

function nameOf(exported: string): string {
  return exported === 'default' ? 'a default' : `'${exported}'`;
}

function remedyOf(exported: string, exports: Readonly<Record<string, unknown>>): string {
  const names = Object.keys(exports).filter((name) => typeof exports[name] === 'function');
  if (names.length === 0) return 'it exports no function';
  const meant = nearest(exported, names);
  return meant === undefined ? `there are ${names.slice(0, 10).join(', ')}` : `did you mean #${meant}?`;
}
