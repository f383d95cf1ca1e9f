import type { ErrorCode } from './errors.ts';

export interface ErrorDetails {
  readonly resource?: string | undefined;
  readonly fencingToken?: number | undefined;
  readonly cause?: unknown;
}

// A registered symbol, so that errors of a second installed copy of this package are recognised as well.
const brand = Symbol.for('leasehold.error');

const MAX_CAUSES = 50;

/** Base of all errors. `message` begins with the code. */
export class LeaseholdError extends Error {
  readonly code: ErrorCode;
  /** The resource as the caller named it, when the error is about one. */
  readonly resource: string | undefined;
  readonly fencingToken: number | undefined;

  constructor(code: ErrorCode, detail: string, details: ErrorDetails = {}) {
    const subject = details.resource === undefined ? code : `${code} ${details.resource}`;
    super(`${subject}: ${detail}`, details.cause === undefined ? undefined : { cause: details.cause });
    this.name = new.target.name;
    this.code = code;
    this.resource = details.resource;
    this.fencingToken = details.fencingToken;
    Object.defineProperty(this, brand, { value: true });
  }

  /**
   * Whether `error`, or an error in its chain of `cause`, is a Leasehold error (of this code, if one is given; an
   * `ACQUIRE_TIMEOUT` is a `RESOURCE_BUSY` as well). Works across two installed copies of the package and through wrappers
   * such as those of ORMs.
   */
  static is(error: unknown, code?: ErrorCode): boolean {
    return LeaseholdError.find(error, code) !== undefined;
  }

  /** The Leasehold error that `is` found. */
  static find(error: unknown, code?: ErrorCode): LeaseholdError | undefined {
    try {
      const seen = new Set<unknown>();
      // A getter may give a new cause each time.
      for (let at = error; at instanceof Error && !seen.has(at) && seen.size < MAX_CAUSES; at = at.cause) {
        seen.add(at);
        if (!(brand in at)) continue;
        const found = at as unknown as LeaseholdError;
        const its: unknown = found.code;
        const isTimeout = code === 'RESOURCE_BUSY' && its === 'ACQUIRE_TIMEOUT';
        if (typeof its === 'string' && (code === undefined || its === code || isTimeout)) return found;
      }
    } catch {
      // Anything can be thrown: a proxy, an error whose cause is a getter that throws. Whatever it is, it is none of ours.
    }
    return undefined;
  }

  /** `error` itself, if it is a Leasehold error; what it was caused by does not count. */
  static of(error: unknown): LeaseholdError | undefined {
    const found = LeaseholdError.find(error);
    return found === error ? found : undefined;
  }
}
