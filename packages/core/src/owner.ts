import { randomUUID } from 'node:crypto';
import { readFileSync, readlinkSync } from 'node:fs';
import { hostname } from 'node:os';

import { z } from 'zod';

/**
 * What the owner has measured of itself: the worst since it started, and the last. Kept in the record beside the identity
 * and refreshed with the extension. All in milliseconds.
 */
export interface OwnerVitals {
  /** The longest that its event loop stood still. */
  readonly worstPauseMs: number;
  /** The largest step of its wall clock against its monotonic clock, either way. */
  readonly worstClockStepMs: number;
  /** The longest that its machine was suspended. */
  readonly worstSuspendMs: number;
  /** The longest round trip to the store that was answered. */
  readonly worstRoundTripMs: number;
  /** The longest time between two confirmations of one lease, as a part of its ttl (0.34: a third). */
  readonly worstExtensionRatio: number;
  /** Extends that had no usable answer. */
  readonly failedExtensions: number;
  /** Its wall clock minus the store's, as extensions tell of it; null if none did in the last ten minutes. */
  readonly clockOffsetMs: number | null;
  /** Of the store's server, as it was when last measured; empty if not known. */
  readonly serverRunId: string;
  /** ISO 8601, UTC, by its own wall clock. */
  readonly measuredAt: string;
}

/**
 * Who a process is, for people and for diagnosis. Ownership is never compared by it: names and hosts are shared, pids
 * come back. That is what the leaseId is for.
 */
export interface OwnerIdentity {
  /** Random, one a process. */
  readonly instance: string;
  /** Pod, container or host name. */
  readonly name: string;
  readonly host: string;
  readonly pid: number;
  /** ISO 8601, UTC. */
  readonly startedAt: string;
  /** The application's own version, if given or known from the package manager. */
  readonly version?: string | undefined;
  // A pid means something only together with these (see `ps`, `/proc/<pid>/stat` field 22, `lsns -t pid`).
  readonly machineId?: string | undefined;
  readonly bootId?: string | undefined;
  readonly pidNamespace?: string | undefined;
  readonly startTicks?: number | undefined;
  readonly container?: string | undefined;
  readonly pod?: string | undefined;
  readonly podNamespace?: string | undefined;
  readonly node?: string | undefined;
  /** The unit of the system's systemd that it runs in; none for units of a user's own. */
  readonly unit?: string | undefined;
  /** What systemd calls this start of the unit: another at each start. */
  readonly invocation?: string | undefined;
  readonly vitals?: OwnerVitals | undefined;
}

/** What a user may say about it. A plain string is the name. */
export type OwnerOption = string | { readonly name?: string; readonly version?: string };

const figure = z.number().min(0).max(Number.MAX_SAFE_INTEGER);

const vitalsSchema = z.object({
  worstPauseMs: figure,
  worstClockStepMs: figure,
  worstSuspendMs: figure,
  worstRoundTripMs: figure,
  worstExtensionRatio: figure,
  failedExtensions: figure,
  clockOffsetMs: z.number().min(-Number.MAX_SAFE_INTEGER).max(Number.MAX_SAFE_INTEGER).nullable(),
  serverRunId: z.string().regex(/^\w{0,64}$/),
  measuredAt: z.iso.datetime(),
});

/** What a record says of vitals, which anybody may have written: undefined unless each of them looks like one. */
export function vitalsOf(value: unknown): OwnerVitals | undefined {
  return vitalsSchema.safeParse(value).data;
}

function attempt<T>(read: () => T): T | undefined {
  try {
    return read();
  } catch {
    // Not Linux, or not allowed: that piece of evidence is missing, which diagnosis can say.
    return undefined;
  }
}

function firstLine(path: string): string | undefined {
  const line = attempt(() => readFileSync(path, 'utf8').split('\n', 1)[0]?.trim());
  return line === '' ? undefined : line;
}

function startTicks(): number | undefined {
  // The command, field 2, may contain spaces and parentheses: count from behind the last one.
  const fields = firstLine('/proc/self/stat')?.split(') ').at(-1)?.split(' ');
  const ticks = Number(fields?.[19]);
  return Number.isSafeInteger(ticks) ? ticks : undefined;
}

/** What `/proc/<pid>/cgroup` says of where a process runs: container (12 digits of its id) and systemd unit. */
export function placeOf(cgroups: string): {
  readonly container?: string | undefined;
  readonly unit?: string | undefined;
} {
  // The innermost container: those of one that runs in another are listed from the outside in.
  const container = cgroups
    .match(/[0-9a-f]{64}/g)
    ?.at(-1)
    ?.slice(0, 12);
  // A container's scope is a unit, too, and a unit in a container or of a user is not known to the system's systemd.
  if (container !== undefined || cgroups.includes('/user@')) return { container };
  // `0::` is the tree that systemd keeps where there is one tree, `name=systemd` where there are many.
  const path = cgroups.match(/^(?:0:|\d+:name=systemd):(\/.*)$/gm)?.find((line) => UNIT_IN_PATH.test(line));
  return { unit: path?.match(UNIT_IN_PATH)?.[1] };
}

/** The first unit on the path: what comes below is made by the unit itself. */
const UNIT_IN_PATH = /\/([A-Za-z0-9:_.@\\][A-Za-z0-9:_.@\\-]*\.(?:service|scope))(?:\/|$)/;

function environment(name: string): string | undefined {
  const value = process.env[name];
  return value === undefined || value === '' ? undefined : value;
}

function readProcess(): OwnerIdentity {
  const pod = environment('POD_NAME');
  const host = hostname();
  const place = placeOf(attempt(() => readFileSync('/proc/self/cgroup', 'utf8')) ?? '');
  return {
    instance: randomUUID(),
    name: environment('LEASEHOLD_OWNER') ?? pod ?? host,
    host,
    pid: process.pid,
    startedAt: new Date(performance.timeOrigin).toISOString(),
    version: environment('npm_package_version'),
    machineId: firstLine('/etc/machine-id'),
    bootId: firstLine('/proc/sys/kernel/random/boot_id'),
    pidNamespace: attempt(() => readlinkSync('/proc/self/ns/pid')),
    startTicks: startTicks(),
    container: place.container,
    pod,
    podNamespace: environment('POD_NAMESPACE'),
    node: environment('NODE_NAME'),
    unit: place.unit,
    invocation: place.unit === undefined ? undefined : environment('INVOCATION_ID'),
  };
}

let process_: OwnerIdentity | undefined;

/** This process, read once. */
export function ownerIdentity(option: OwnerOption = {}): OwnerIdentity {
  process_ ??= readProcess();
  const given = typeof option === 'string' ? { name: option } : option;
  return { ...process_, name: given.name ?? process_.name, version: given.version ?? process_.version };
}

/** One line for people: `web-7f9c pid 4121 since 02:41:07Z v1.18.0`. */
export function ownerLine(owner: OwnerIdentity): string {
  const version = owner.version === undefined ? '' : ` v${owner.version}`;
  return `${owner.name} pid ${owner.pid} since ${owner.startedAt.slice(11, 19)}Z${version}`;
}
