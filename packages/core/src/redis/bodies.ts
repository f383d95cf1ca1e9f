import { ConfigError } from '../errors.ts';
import { show } from '../show.ts';
import type { Script } from './script.ts';
import { bodyScript } from './scripts/fence-body.ts';

/** So many texts are kept, with their SHA-1. A program has few; one that writes values into the text has ever new ones. */
const MAX_BODIES = 100;

/** The Lua bodies that were used, as scripts with the guard in front. */
export class Bodies {
  readonly #scripts = new Map<string, Script>();

  /** Throws `ConfigError` for what can be no body. Whether it compiles, the server says. */
  scriptOf(body: unknown): Script {
    if (typeof body !== 'string' || body.trim() === '') {
      throw new ConfigError('body', `is ${show(body)}: must be the text of a Lua function body`);
    }
    const known = this.#scripts.get(body);
    if (known !== undefined) return known;
    if (body.trimStart().startsWith('#!')) {
      throw new ConfigError('body', 'begins with #!; leave that line out, the flags are those of a fenced write');
    }
    const made = bodyScript(body);
    const [oldest] = this.#scripts.keys();
    if (this.#scripts.size === MAX_BODIES && oldest !== undefined) this.#scripts.delete(oldest);
    this.#scripts.set(body, made);
    return made;
  }
}
