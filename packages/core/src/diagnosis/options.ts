import { z } from 'zod';
import { durationSchema } from '../duration-schema.ts';
import type { Fence } from '../fence/fence.ts';
import { parseOptions } from '../options.ts';
import type { DiagnoseOptions } from './diagnose.ts';
import type { DoctorOptions } from './doctor.ts';
import type { FenceCheck } from './checks/fences.ts';
import type { ForceReleaseOptions } from './force-release.ts';
import type { OwnerProbe } from './probe.ts';

function having<T>(what: string, ...methods: readonly (keyof T & string)[]): z.ZodType<T> {
  return z.custom<T>(
    (value) =>
      typeof value === 'object' &&
      value !== null &&
      methods.every((method) => typeof (value as Record<string, unknown>)[method] === 'function'),
    `must be ${what}`,
  );
}

function callable<T>(): z.ZodType<T> {
  return z.custom<T>((value) => typeof value === 'function', 'must be a function');
}

const fences = z.array(having<Fence>('a fence (seal, highest, activate)', 'seal', 'highest', 'activate'));

const shared = {
  probes: z.array(having<OwnerProbe>('a probe of owners', 'probe'), 'must be an array of probes').optional(),
  fences: fences.optional(),
  signal: z.custom<AbortSignal>((value) => value instanceof AbortSignal, 'must be an AbortSignal').optional(),
  onProgress: callable<NonNullable<DiagnoseOptions['onProgress']>>().optional(),
};

const diagnoseSchema: z.ZodType<DiagnoseOptions> = z.strictObject({
  ...shared,
  observe: z.boolean('must be true or false').optional(),
});

const text = (most: number) =>
  z
    .string('must be a string')
    .refine((given) => given.trim() !== '', 'must not be empty')
    .max(most, `must be at most ${most} characters`);

/** Longer than anybody who is on call waits before they look for themselves. */
const MAX_WATCH_MS = 3_600_000;

const forceReleaseSchema = z.strictObject({
  ...shared,
  leaseId: text(256),
  reason: text(256),
  operator: text(256).optional(),
  acceptDoubleExecution: z.string('must be a string').optional(),
  confirm: callable<NonNullable<ForceReleaseOptions['confirm']>>().optional(),
  onStep: callable<NonNullable<ForceReleaseOptions['onStep']>>().optional(),
  watchSuccessor: durationSchema('watchSuccessor', (ms) => ms <= MAX_WATCH_MS, 'must be at most 1 h'),
});

const sealSchema = z.strictObject({
  fences: fences.min(1, 'must name at least one fence'),
  reason: text(256),
  operator: text(256).optional(),
  fencingToken: z.number('must be a fencing token').int('must be a whole number').min(1, 'must be above 0').optional(),
});

export type ForceReleaseSettings = Omit<ForceReleaseOptions, 'watchSuccessor'> & {
  readonly watchMs: number | undefined;
};

const doctorSchema: z.ZodType<DoctorOptions> = z.strictObject({
  signal: shared.signal,
  leases: z
    .array(
      z.strictObject({
        name: text(256),
        ttlMs: z
          .number('must be milliseconds')
          .min(100, 'must be at least 100')
          .max(86_400_000, 'must be at most 24 h'),
        isFenced: z.boolean('must be true or false'),
      }),
      'must be an array of leases { name, ttlMs, isFenced }',
    )
    .optional(),
  fences: z
    .array(
      z.strictObject({
        fence: having<Fence>('a fence (seal, highest, activate)', 'seal', 'highest', 'activate'),
        status: callable<NonNullable<FenceCheck['status']>>().optional(),
        servers: callable<NonNullable<FenceCheck['servers']>>().optional(),
      }),
      'must be an array of { fence }',
    )
    .optional(),
  multiplier: z.number('must be a number').min(1, 'must be at least 1').max(100, 'must be at most 100').optional(),
});

/** Throws `ConfigError`. */
export function parseDoctorOptions(options: unknown): DoctorOptions {
  return parseOptions(doctorSchema, options);
}

/** Throws `ConfigError`. */
export function parseDiagnoseOptions(options: unknown): DiagnoseOptions {
  return parseOptions(diagnoseSchema, options);
}

/** Throws `ConfigError`. */
export function parseForceReleaseOptions(options: unknown): ForceReleaseSettings {
  const { watchSuccessor, ...rest } = parseOptions(forceReleaseSchema, options);
  return { ...rest, watchMs: watchSuccessor };
}

/** Throws `ConfigError`. */
export function parseSealOptions(options: unknown): SealOptions {
  return parseOptions(sealSchema, options);
}

export interface SealOptions {
  readonly fences: readonly Fence[];
  /** Why, for the log: an incident's number. 1 to 256 characters. */
  readonly reason: string;
  /** Who, 1 to 256 characters. Default: this process's owner line. */
  readonly operator?: string | undefined;
  /** The fences are raised to this; the store is not needed then. Default: one above the highest that any of them or the record knows. */
  readonly fencingToken?: number | undefined;
}
