import { readFileSync } from 'node:fs';
import { basename, dirname, extname, join } from 'node:path';

/** What Node says of a file that is written as an ES module and was taken for CommonJS. */
const MODULE_SYNTAX = /^(?:Unexpected token 'export'|Cannot use (?:import statement|'import\.meta') outside a module)$/;

/**
 * Of an import that failed because a file is written as an ES module and is named, or lies in a folder, as CommonJS: what `npm init` makes of a
 * folder since npm 11. Undefined for other errors.
 */
export function faultOfKind(error: unknown, file: string): readonly [message: string, remedy: string] | undefined {
  if (!(error instanceof SyntaxError) || !MODULE_SYNTAX.test(error.message)) return undefined;
  // The first line of such an error is the place: it may be in a file that this one imports.
  const at = /^(\/.*|[A-Za-z]:\\.*):\d+$/.exec(error.stack?.split('\n')[0] ?? '')?.[1] ?? file;
  const which = at === file ? '' : `imports ${at}, which `;
  const kind = extname(at);
  const renamed = `${basename(at, kind)}${kind.endsWith('ts') ? '.mts' : '.mjs'}`;
  if (kind.startsWith('.c')) {
    return [`${which}is written as an ES module, and ${kind} is for CommonJS`, `name it ${renamed}`];
  }
  const manifest = commonJsManifest(dirname(at));
  if (manifest === undefined) return undefined;
  return [
    `${which}is written as an ES module, and ${manifest} says that ${kind} files are CommonJS`,
    `write "type": "module" there, or name the file ${renamed}`,
  ];
}

/** The package.json that a file in this folder belongs to, if it says `"type": "commonjs"`. */
function commonJsManifest(folder: string): string | undefined {
  const path = join(folder, 'package.json');
  try {
    const { type } = JSON.parse(readFileSync(path, 'utf8')) as { readonly type?: unknown };
    return type === 'commonjs' ? path : undefined;
  } catch {
    const parent = dirname(folder);
    return parent === folder ? undefined : commonJsManifest(parent);
  }
}
