import { parseOptions } from '@leasehold/core';
import { z } from 'zod';

const LEVELS = ['debug', 'info', 'warn', 'error', 'fatal', 'child'];

function isLogger(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return false;
  return LEVELS.every((name) => typeof (value as Readonly<Record<string, unknown>>)[name] === 'function');
}

/** What a store is judged by is the business of whoever uses it. */
const schema = z.strictObject({
  handlers: z
    .record(
      z.string(),
      z.custom((value) => typeof value === 'function', 'must be a function'),
      'must be functions by the names of jobs',
    )
    .optional(),
  log: z.custom(isLogger, 'must be a pino logger').optional(),
  signals: z.boolean('must be true or false').optional(),
  only: z
    .array(z.string('must be the name of a job'), 'must be a list of names of jobs')
    .nonempty('must name a job; leave it out for all of them')
    .optional(),
  store: z.unknown().optional(),
});

/** Throws `ConfigError` for options of `runConfig` that are none, or that cannot be used. */
export function checkRunConfigOptions(options: unknown): void {
  parseOptions(schema, options);
}
