import { basename, dirname, isAbsolute, resolve } from 'node:path';
import { ConfigError, FenceUnavailableError } from '../../errors.ts';
import { show } from '../../show.ts';
import { messageOf, propertyOf } from '../../thrown.ts';

/** The longest that a file system takes, less the longest ending that is added here. Bytes. */
const LONGEST_NAME = 255 - '.fence.break.'.length - 32;

/** The files of one resource: side by side in one folder, because only there a rename is atomic. */
export class FilePlace {
  readonly resource: string;
  readonly folder: string;
  /** The user's file. */
  readonly data: string;
  /** Who was admitted. */
  readonly mark: string;
  readonly lock: string;
  /** What is not in place yet; only the holder of the lock has these. */
  readonly newData: string;
  readonly newMark: string;
  readonly #fence: string;

  /** Throws `ConfigError` for a path that cannot be one. */
  constructor(fence: string, resource: string, path: unknown) {
    const problem = pathProblem(path);
    if (problem !== null) throw new ConfigError('path', `gave ${show(path)} for ${show(resource)}: ${problem}`);
    this.#fence = fence;
    this.resource = resource;
    this.data = resolve(path as string);
    this.folder = dirname(this.data);
    this.mark = `${this.data}.fence`;
    this.lock = `${this.mark}.lock`;
    this.newData = `${this.mark}.data`;
    this.newMark = `${this.mark}.mark`;
  }

  /** A lock that is complete and not in force yet. */
  candidate(id: string): string {
    return `${this.lock}.${id}`;
  }

  /** The lock that must be held by whoever removes the lock file `id`. */
  breaking(id: string): string {
    return `${this.mark}.break.${id}`;
  }

  unavailable(detail: string, cause?: unknown, outcome: 'not-written' | 'unknown' = 'not-written'): Error {
    return new FenceUnavailableError(this.resource, this.#fence, detail, cause, outcome);
  }

  /** What the system said, and what to do about it. */
  failure(error: unknown, outcome: 'not-written' | 'unknown'): Error {
    return this.unavailable(`${messageOf(error)}${this.#hint(error)}`, error, outcome);
  }

  #hint(error: unknown): string {
    switch (propertyOf(error, 'code')) {
      case 'ENOENT':
      case 'ENOTDIR':
        return ` (is ${this.folder} there? a fence makes no folders)`;
      case 'EACCES':
      case 'EROFS':
      case 'EPERM':
        return ` (this process must be able to make, link and rename files in ${this.folder})`;
      case 'ENOTSUP':
      case 'EOPNOTSUPP':
      case 'ENOSYS':
        return ` (the file system of ${this.folder} lacks what a fence needs, such as hard links)`;
      default:
        return '';
    }
  }
}

function pathProblem(path: unknown): string | null {
  if (typeof path !== 'string' || path === '') return 'must be the path of a file';
  if (path.includes('\0')) return 'a path has no NUL in it';
  if (!isAbsolute(path)) return 'must be absolute: each process has a folder of its own that others count from';
  const name = basename(resolve(path));
  if (name === '' || /[\\/]$/.test(path)) return 'is a folder; must be the path of a file';
  if (/\.fence(\.|$)/.test(name)) return 'names with .fence in them are those of the fence itself';
  if (Buffer.byteLength(name) <= LONGEST_NAME) return null;
  return `the name is longer than ${LONGEST_NAME} bytes; fileName(resource) makes one that is not`;
}
