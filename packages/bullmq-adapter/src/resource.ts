import { checkResourceName, ConfigError, type LeaseholdError } from '@leasehold/core';
import { UnrecoverableError, type Job } from 'bullmq';
import type { ResourceOption } from './options.ts';
import { withoutOrders } from './thrown.ts';

// What a template makes of a value that is not there. As words of their own, so that `nullable` is a name like any other.
const LEFTOVER = /(?<![\p{L}\p{N}])(?:undefined|null|NaN)(?![\p{L}\p{N}])|\[object [^\]]*\]/u;

/** Throws `ConfigError` unless this can be the name of one resource. */
export function checkResource(option: string, name: unknown): asserts name is string {
  if (name instanceof Promise) {
    // Nobody will wait for it.
    name.catch(() => {});
    throw new ConfigError(option, 'is a promise; name the resource from what the job carries, without awaiting');
  }
  checkResourceName(option, name);
  const leftover = LEFTOVER.exec(name);
  if (leftover !== null) {
    throw new ConfigError(
      option,
      `${JSON.stringify(name)} contains ${leftover[0]}: a value is missing in the template`,
    );
  }
}

/**
 * The resource of this job; null for none. Throws `UnrecoverableError` for what cannot be a name, because the next try
 * would come to the same; what the job's own function throws passes, unless it is an order to BullMQ.
 */
export function resourceOf(option: ResourceOption, job: Job): string | null {
  if (typeof option === 'string') return option;
  const name = nameOf(option, job);
  if (name === null) return null;
  try {
    checkResource('lease.resource', name);
  } catch (error) {
    throw unrecoverable(error as ConfigError);
  }
  return name;
}

function nameOf(option: Exclude<ResourceOption, string>, job: Job): unknown {
  try {
    return option(job);
  } catch (error) {
    throw withoutOrders(error, 'was thrown by the function `resource`');
  }
}

/** BullMQ keeps only the message of a failure, and that of ours stands alone. */
export function unrecoverable(error: LeaseholdError): UnrecoverableError {
  return Object.assign(new UnrecoverableError(error.message), { cause: error });
}
