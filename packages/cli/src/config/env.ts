import { pathText, type Path, type Problem } from './problem.ts';
import type { Source } from './source.ts';

/** Variables by name, as `process.env` has them. */
export type Environment = Readonly<Record<string, string | undefined>>;

const NAME = /^[A-Za-z_][A-Za-z0-9_]*$/;

export interface Interpolated {
  readonly value: unknown;
  readonly problems: readonly Problem[];
  /** Where a variable is missing: what stands there is no value to be judged. */
  readonly unset: ReadonlySet<string>;
}

/**
 * Replaces `${VAR}` and `${VAR:-default}` in the texts of a config, as Compose does: the default also stands for a variable that is empty.
 * `$${` is a `${` that is left alone. Never in keys. `source` learns which values are not to be shown.
 */
export function interpolate(raw: unknown, env: Environment, source: Source): Interpolated {
  const problems: Problem[] = [];
  const unset = new Set<string>();

  function walk(value: unknown, path: Path): unknown {
    if (Array.isArray(value)) return value.map((item, index) => walk(item, [...path, index]));
    if (typeof value === 'object' && value !== null && isPlain(value)) {
      return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, walk(item, [...path, key])]));
    }
    return typeof value === 'string' && value.includes('${') ? replace(value, path) : value;
  }

  function replace(written: string, path: Path): string {
    const faults: [message: string, remedy: string][] = [];
    let fromEnv = false;
    const text = written.replace(/(\$?)\$\{([^}]*)(\}?)/g, (all, escape: string, inner: string, end: string) => {
      if (escape !== '') return all.slice(1);
      const [, name = '', fallback] = /^([^:]*)(?::-(.*))?$/s.exec(inner) ?? [undefined, inner];
      if (end === '' || !NAME.test(name)) {
        faults.push([
          'has a ${ that names no variable',
          "write ${NAME} or ${NAME:-default}; for the text '${' write $${",
        ]);
        return '';
      }
      fromEnv = true;
      const set = Object.hasOwn(env, name) ? env[name] : undefined;
      if (set !== undefined && (set !== '' || fallback === undefined)) return set;
      if (fallback === undefined) {
        faults.push([`needs the variable ${name}, which is not set`, `set it, or give a default: \${${name}:-…}`]);
      }
      return fallback ?? '';
    });
    if (fromEnv) source.hide(path, written);
    if (faults.length > 0) unset.add(pathText(path));
    for (const [message, remedy] of faults) problems.push(source.problem(path, message, remedy));
    return text;
  }

  return { value: walk(raw, []), problems, unset };
}

function isPlain(value: object): boolean {
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === Object.prototype || prototype === null;
}
