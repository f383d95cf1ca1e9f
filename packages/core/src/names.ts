import { ConfigError } from './errors.ts';
import { show } from './show.ts';

const PREFIX = /^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$/;
const JOB = /^[A-Za-z0-9][A-Za-z0-9_.:-]{0,127}$/;
// oxlint-disable-next-line no-control-regex -- this is the rule
const CONTROL = /[\u0000-\u001f\u007f-\u009f\u2028\u2029]/;

const utf8 = new TextEncoder();

/**
 * Resource names: 1 to 256 bytes of UTF-8, any characters but control characters. They are compared byte by byte, never
 * normalised; half surrogate pairs are refused, because they all become the same bytes.
 */
export function checkResourceName(option: string, name: unknown): asserts name is string {
  if (Array.isArray(name)) {
    throw new ConfigError(
      option,
      'takes one name, not an array; to hold several resources nest the calls, always in the same order',
    );
  }
  if (typeof name !== 'string') throw new ConfigError(option, `is ${show(name)}: must be a string`);
  if (name === '') throw new ConfigError(option, 'is empty; name the one thing that must have one owner');
  // A UTF-16 unit is at most three bytes, so short names need not be encoded to be measured.
  if (name.length > 85 && utf8.encode(name).length > 256) {
    throw new ConfigError(option, `${show(name)} is longer than 256 bytes`);
  }
  if (CONTROL.test(name)) throw new ConfigError(option, `${show(name)} contains a control character`);
  // In unicode mode a whole pair is one character, so only halves match.
  if (/\p{Surrogate}/u.test(name)) throw new ConfigError(option, `${show(name)} contains half a surrogate pair`);
}

/** Prefixes are part of the qualified name, so they must not contain its separator. */
export function checkPrefix(option: string, prefix: unknown): asserts prefix is string {
  if (typeof prefix !== 'string' || !PREFIX.test(prefix)) {
    throw new ConfigError(
      option,
      `${show(prefix)} is not a prefix: 1 to 64 of A-Z a-z 0-9 _ . -, beginning with a letter or a digit`,
    );
  }
}

/** Job names are stable identifiers: the tick of a job is found by it. */
export function checkJobName(option: string, job: unknown): asserts job is string {
  if (typeof job !== 'string' || !JOB.test(job)) {
    throw new ConfigError(
      option,
      `${show(job)} is not a job name: 1 to 128 of A-Z a-z 0-9 _ . : -, beginning with a letter or a digit`,
    );
  }
}

/**
 * Qualified names: `<namespace>/<resource>`, the namespace by the rule for prefixes and the rest by that for resource names:
 * at most 64 + 1 + 256 bytes.
 */
export function checkQualifiedName(option: string, name: unknown): asserts name is string {
  const slash = typeof name === 'string' ? name.indexOf('/') : -1;
  if (typeof name !== 'string' || slash < 0) {
    throw new ConfigError(option, `is ${show(name)}: must be a qualified name, <namespace>/<resource>`);
  }
  checkPrefix(option, name.slice(0, slash));
  checkResourceName(option, name.slice(slash + 1));
}

/** LeaseIds of ours are 32 hex digits; those of others are held to the rules for resource names. */
export function checkLeaseId(option: string, leaseId: unknown): asserts leaseId is string {
  checkResourceName(option, leaseId);
}

/** What fences know a resource by. Injective, because a prefix contains no slash. */
export function qualify(namespace: string, resource: string): string {
  // Joined, because V8 keeps the parts of a template beside the text that it made of them: 32 bytes for each held lease.
  return [namespace, resource].join('/');
}
