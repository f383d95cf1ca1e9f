import { z } from 'zod';
import { systemClock, type Clock } from './clock.ts';
import type { Duration } from './duration.ts';
import { durationSchema as duration } from './duration-schema.ts';
import { ConfigError } from './errors.ts';
import type { Fence } from './fence/fence.ts';
import { guardedLogger, silentLogger, type Logger } from './log.ts';
import { timingOf, type Timing, type TimingOptions } from './lease/term.ts';
import { adviceOn, DEFAULT_TTL_MS, timingOptionsOf, timingSchema } from './timing-options.ts';
import type { OwnerOption } from './owner.ts';
import { show } from './show.ts';
import type { HistoryMode, LeaseStore } from './store/store.ts';
import type { TickRequest } from './store/tick-request.ts';
import { memoryOfTickMs, tickRequestOf, tickSchema, type TickOptions } from './tick-options.ts';

export interface LeaseManagerOptions {
  readonly store: LeaseStore;
  /** The lease duration, 100 ms to 24 h. Longer than the longest pause to be survived, not than the run. @default '30s' */
  readonly ttl?: Duration;
  /** A lease is extended after ttl / refreshRatio. At least 2, advised 3 to 5. @default 3 */
  readonly refreshRatio?: number;
  /** How much earlier than the store the owner stops believing. At least 10 ms. @default clamp(ttl / 20, 20 ms, 500 ms) */
  readonly safetyMargin?: Duration;
  /** By how much two clocks may differ in speed, 0 to 0.2. @default 0.01 */
  readonly driftRate?: number;
  /** For each call to the store. @default min(2 s, (window - refresh) / 3) */
  readonly callTimeout?: Duration;
  /** For each activation of a fence. @default min(ttl, 10 s) */
  readonly activateTimeout?: Duration;
  /** A run that is longer is cancelled (`max-hold`) and no longer extended. @default Infinity */
  readonly maxHold?: Duration;
  /** Name and version of this process in the record. @default pod, container or host name */
  readonly owner?: OwnerOption;
  /**
   * What the log of a resource keeps in the store: the last 16 exceptional events, or the last 64 of all kinds.
   * @default 'exceptions'
   */
  readonly history?: HistoryMode;
  /**
   * How long a lease that was released stays with this process when nobody else is known to want it, so that the next
   * acquisition of its resource here costs no round trip, with a greater token than the one before. It is given back at once
   * when somebody else asks, or when the manager closes; at the latest so long after its first release, or when it would
   * have to be extended. A process that ends without `close()` leaves it to run out, and a `tryAcquire` elsewhere may find it
   * busy. Not for acquisitions with a `tick`. 0 to ttl / refreshRatio; not with `history: 'all'`, which could not tell of
   * what happens here alone. @default 0
   */
  readonly linger?: Duration;
  /**
   * Waits out a server that is younger than the ttl, also on the first connection: what it lost in a restart without
   * persistence may still be trusted by its owner. Always done once this process has seen its server restart.
   * @default false
   */
  readonly quarantine?: boolean;
  /** A pino logger, or one of its shape. @default silent */
  readonly logger?: Logger;
  /** @default systemClock */
  readonly clock?: Clock;
}

/** The options of a manager that say when a lease is extended, how long its owner trusts it, and how long a call may take. */
export type LeaseTimingOptions = Pick<
  LeaseManagerOptions,
  'ttl' | 'refreshRatio' | 'safetyMargin' | 'driftRate' | 'callTimeout' | 'activateTimeout'
>;

export interface AcquireOptions {
  /** @default the manager's ttl */
  readonly ttl?: Duration;
  /**
   * How long to wait for the resource, in order of arrival. `Infinity` for ever. The order holds among waiters that answer
   * within the claim, clamp(ttl / 10, 50 ms, 500 ms). @default 0
   */
  readonly wait?: Duration;
  /**
   * For adapters that put work aside: a refusal asks the store for one `free` event of the manager, when the resource is
   * free and nobody waits. May be lost: only hurry by it. @default false
   */
  readonly park?: boolean;
  /**
   * Aborts the acquisition; in `run` it cancels the body as well: `RunCancelledError`, reason `caller`, or `shutdown` if the
   * signal was aborted with such an error.
   */
  readonly signal?: AbortSignal;
  /** The fences that this lease writes through. Activated in the order of their names before the body begins. */
  readonly fences?: readonly Fence[];
  /**
   * `before`: every fence is activated before the body. `on-write`: not at all; only for bodies whose reads all happen
   * inside the write. @default 'before'
   */
  readonly activate?: 'before' | 'on-write';
  /** @default the manager's maxHold */
  readonly maxHold?: Duration;
  /** Claims the tick of a schedule, or the beginning of a run without one, in the same step. */
  readonly tick?: TickOptions;
  /**
   * How long the store remembers the resource once nobody holds it, 1 min to 365 d; with a tick also how long the tick is
   * remembered, which otherwise it is for ever. For resources that are used once, so that a million of them do not stay.
   * With a tick longer than its `startingDeadline` and `maxAhead` together, or than its `minHold`: forgotten sooner, it
   * could run again. What is forgotten is how the last lease ended, and the last token: the next one is greater by the
   * store's clock alone. @default 7 d for resources, for ever for ticks
   */
  readonly retention?: Duration;
  /** Allows acquiring what an enclosing `run` body holds, for work that outlives that body. @default false */
  readonly detached?: boolean;
}

/** Of the adopter's lease. The ttl defaults to that of the ticket. */
export type AdoptOptions = Pick<AcquireOptions, 'ttl' | 'signal' | 'fences' | 'activate' | 'maxHold'>;

export interface RevokeOptions {
  /** Only if this is the owner still. @default whoever owns it */
  readonly leaseId?: string;
  /** Who asks; recorded. @default this process */
  readonly operator?: string;
  /** Why; recorded. */
  readonly reason?: string;
}

export interface CloseOptions {
  /** How long bodies may go on undisturbed. @default '10s' */
  readonly grace?: Duration;
  /** How long to wait for bodies after they were cancelled. @default Infinity */
  readonly abandonAfter?: Duration;
}

/** Manager options after checking: numbers, defaults filled in. */
export interface ManagerSettings {
  readonly store: LeaseStore;
  readonly clock: Clock;
  readonly logger: Logger;
  /** For what somebody must hear of: to the logger, or as a warning of the process if there is none. */
  readonly warn: (fields: object, message: string) => void;
  readonly owner: OwnerOption | undefined;
  readonly history: HistoryMode;
  readonly quarantine: boolean;
  readonly lingerMs: number;
  readonly timing: Timing;
  readonly timingOptions: TimingOptions;
  readonly activateTimeoutMs: number | undefined;
  readonly maxHoldMs: number;
  /** Those of an acquisition without options of its own. */
  readonly plain: AcquireSettings;
}

/** Options of one acquisition after checking. */
export interface AcquireSettings {
  readonly timing: Timing;
  readonly waitMs: number;
  readonly park: boolean;
  readonly signal: AbortSignal | undefined;
  readonly fences: readonly Fence[];
  readonly onWrite: boolean;
  readonly maxHoldMs: number;
  readonly activateTimeoutMs: number;
  readonly tick: TickRequest | undefined;
  readonly retentionMs: number | undefined;
  /** Whose tick came over with a ticket. */
  readonly job?: string | undefined;
  readonly detached: boolean;
}

const MAX_RETENTION_MS = 365 * 24 * 60 * 60 * 1000;

function having<T>(what: string, ...methods: readonly (keyof T & string)[]): z.ZodType<T> {
  return z.custom<T>(
    (value) =>
      typeof value === 'object' &&
      value !== null &&
      methods.every((method) => typeof (value as Record<string, unknown>)[method] === 'function'),
    `must be ${what}`,
  );
}

const fence = having<Fence>('a fence (activate, write, seal, highest)', 'activate', 'write', 'seal', 'highest').refine(
  ({ name }) => typeof name === 'string' && name !== '',
  'must be a fence with a name',
);

const managerSchema = z.strictObject({
  store: having<LeaseStore>(
    "a lease store, such as redisStore('redis://localhost:6379')",
    'acquire',
    'extend',
    'release',
    'read',
  ),
  ...timingSchema.shape,
  maxHold: duration('maxHold', (ms) => ms >= 1, 'must be at least 1 ms'),
  history: z.enum(['exceptions', 'all'], "must be 'exceptions' or 'all'").optional(),
  quarantine: z.boolean('must be true or false').optional(),
  linger: duration('linger', (ms) => ms >= 0, 'must not be negative'),
  owner: z
    .union([z.string(), z.strictObject({ name: z.string().optional(), version: z.string().optional() })])
    .optional(),
  logger: having<Logger>('a logger (debug, info, warn, error)', 'debug', 'info', 'warn', 'error').optional(),
  clock: having<Clock>('a clock', 'monotonicMs', 'wallMs', 'setTimer').optional(),
});

const acquireSchema = z.strictObject({
  ttl: duration('ttl'),
  wait: duration('wait'),
  park: z.boolean('must be true or false').optional(),
  signal: z.custom<AbortSignal>((value) => value instanceof AbortSignal, 'must be an AbortSignal').optional(),
  fences: z.array(fence, 'must be an array of fences').optional(),
  activate: z.enum(['before', 'on-write'], "must be 'before' or 'on-write'").optional(),
  maxHold: duration('maxHold', (ms) => ms >= 1, 'must be at least 1 ms'),
  tick: tickSchema.optional(),
  retention: duration('retention', (ms) => ms >= 60_000 && ms <= MAX_RETENTION_MS, 'must be 1 min to 365 d'),
  detached: z.boolean('must be true or false').optional(),
});

export const historySchema: z.ZodType<{ limit?: number | undefined }> = z.strictObject({
  limit: z.number('must be a number').int('must be a whole number').min(1, 'must be 1 or more').optional(),
});

export const runsSchema: z.ZodType<{ resource?: string | undefined }> = z.strictObject({
  resource: z.string('must be a string').optional(),
});

const revokeSchema = z.strictObject({
  leaseId: z.string('must be a string').min(1, 'must not be empty').optional(),
  operator: z.string('must be a string').max(256, 'must be at most 256 characters').optional(),
  reason: z.string('must be a string').max(1024, 'must be at most 1,024 characters').optional(),
});

const closeSchema = z.strictObject({ grace: duration('grace'), abandonAfter: duration('abandonAfter') });

/** Throws `ConfigError` for an option that is none, where there is no schema. */
export function refuseUnknown(options: unknown, known: readonly string[]): void {
  if (typeof options !== 'object' || options === null) throw new ConfigError('options', `is ${show(options)}`);
  const unknown = Object.keys(options).find((name) => !known.includes(name));
  if (unknown !== undefined) throw new ConfigError(unknown, `is not an option here; there are ${known.join(', ')}`);
}

/** Checks options against a schema. The first fault becomes a `ConfigError` that names the option, the value and the rule. */
export function parseOptions<T>(schema: z.ZodType<T>, options: unknown): T {
  const result = schema.safeParse(options);
  if (result.success) return result.data;
  const issue = result.error.issues[0] as z.core.$ZodIssue;
  if (issue.code === 'unrecognized_keys') {
    const option = [...issue.path, issue.keys[0] as string].join('.');
    const known = knownAt(schema, issue.path);
    throw new ConfigError(option, `is not an option here${known.length > 0 ? `; there are ${known.join(', ')}` : ''}`);
  }
  const option = issue.path.join('.') || 'options';
  const value = issue.path.reduce<unknown>(
    (at, key) => (at as Record<PropertyKey, unknown> | undefined)?.[key],
    options,
  );
  throw new ConfigError(option, `is ${show(value)}: ${issue.message}`);
}

/** The options that the schema has there; none if it is no place for options. */
function knownAt(schema: z.ZodType, path: readonly PropertyKey[]): readonly string[] {
  let at: unknown = schema;
  for (const key of [...path, undefined]) {
    while (at instanceof z.ZodOptional || at instanceof z.ZodDefault) at = at.unwrap();
    if (!(at instanceof z.ZodObject)) return [];
    if (key === undefined) return Object.keys(at.shape);
    at = (at.shape as Readonly<Record<PropertyKey, unknown>>)[key];
  }
  return [];
}

export function parseManagerOptions(options: LeaseManagerOptions): ManagerSettings {
  if (typeof options !== 'object' || options === null) {
    throw new ConfigError('options', "are missing; give { store: redisStore('redis://localhost:6379') }");
  }
  const given = parseOptions(managerSchema, options);
  const logger = given.logger === undefined ? silentLogger : guardedLogger(given.logger);
  const warn =
    given.logger === undefined
      ? (_fields: object, message: string) => process.emitWarning(message, { type: 'LeaseholdWarning' })
      : (fields: object, message: string) => logger.warn(fields, message);
  const timingOptions = timingOptionsOf(given);
  const timing = timingOf(given.ttl ?? DEFAULT_TTL_MS, timingOptions);
  for (const advice of adviceOn(timing.ttlMs, given.refreshRatio)) {
    warn({ ttlMs: timing.ttlMs, refreshRatio: given.refreshRatio }, advice);
  }
  const maxHoldMs = given.maxHold ?? Infinity;
  const lingerMs = given.linger ?? 0;
  if (lingerMs > timing.refreshMs) {
    throw new ConfigError(
      'linger',
      `is ${lingerMs} ms: must be at most ttl / refreshRatio, ${Math.round(timing.refreshMs)} ms; what nobody uses is not extended`,
    );
  }
  if (lingerMs > 0 && given.history === 'all') {
    throw new ConfigError('linger', "cannot go with history 'all': the store does not hear of what lingers here");
  }
  return {
    store: given.store,
    clock: given.clock ?? systemClock,
    logger,
    warn,
    owner: given.owner as OwnerOption | undefined,
    history: given.history ?? 'exceptions',
    quarantine: given.quarantine ?? false,
    lingerMs,
    timing,
    timingOptions,
    activateTimeoutMs: given.activateTimeout,
    maxHoldMs,
    plain: {
      timing,
      waitMs: 0,
      park: false,
      signal: undefined,
      fences: [],
      onWrite: false,
      maxHoldMs,
      activateTimeoutMs: given.activateTimeout ?? defaultActivateTimeoutMs(timing.ttlMs),
      tick: undefined,
      retentionMs: undefined,
      detached: false,
    },
  };
}

/**
 * For those that read options before there is a store. Throws the `ConfigError` that a manager with these options would:
 * for one that is unknown or out of its range, or for a lease that could not be extended twice while its owner trusts it.
 */
export function checkLeaseTiming(options: LeaseTimingOptions): void {
  const given = parseOptions(timingSchema, options);
  timingOf(given.ttl ?? DEFAULT_TTL_MS, timingOptionsOf(given));
}

function defaultActivateTimeoutMs(ttlMs: number): number {
  return Math.min(ttlMs, 10_000);
}

export function parseAcquireOptions(options: AcquireOptions | undefined, manager: ManagerSettings): AcquireSettings {
  if (options === undefined) return manager.plain;
  const {
    ttl,
    wait,
    park,
    signal,
    activate,
    maxHold,
    tick: givenTick,
    retention,
    detached,
    fences: given = [],
  } = parseOptions(acquireSchema, options);
  const timing =
    ttl === undefined || ttl === manager.timing.ttlMs ? manager.timing : timingOf(ttl, manager.timingOptions);
  const fences = [...given].sort((a, b) => (a.name < b.name ? -1 : 1));
  for (const [index, { name }] of fences.entries()) {
    if (name === fences[index + 1]?.name) {
      throw new ConfigError('fences', `two of them are named '${name}'; give each its own name`);
    }
  }
  const tick = givenTick && tickRequestOf(givenTick);
  if (retention !== undefined && tick !== undefined) checkRetention(retention, tick);
  return {
    timing,
    waitMs: wait ?? 0,
    park: park ?? false,
    signal,
    fences,
    onWrite: activate === 'on-write',
    maxHoldMs: maxHold ?? manager.maxHoldMs,
    activateTimeoutMs: manager.activateTimeoutMs ?? defaultActivateTimeoutMs(timing.ttlMs),
    tick,
    retentionMs: retention,
    detached: detached ?? false,
  };
}

function checkRetention(retentionMs: number, tick: TickRequest): void {
  const memoryMs = memoryOfTickMs(tick);
  if (retentionMs > memoryMs) return;
  const what = tick.at === null ? 'minHold' : 'startingDeadline and maxAhead together';
  throw new ConfigError(
    'retention',
    `is ${retentionMs} ms: must be longer than the tick's ${what}, ${memoryMs} ms, or the tick could run twice`,
  );
}

export function parseRevokeOptions(options: RevokeOptions | undefined): Partial<RevokeOptions> {
  return options === undefined ? {} : (parseOptions(revokeSchema, options) as Partial<RevokeOptions>);
}

export function parseCloseOptions(options: CloseOptions | undefined): {
  readonly graceMs: number;
  readonly abandonAfterMs: number;
} {
  const given = options === undefined ? undefined : parseOptions(closeSchema, options);
  return { graceMs: given?.grace ?? 10_000, abandonAfterMs: given?.abandonAfter ?? Infinity };
}
