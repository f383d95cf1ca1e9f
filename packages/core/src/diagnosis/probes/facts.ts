/**
 * What of an identity may be used in commands and answers. It comes from a record that anybody with access to the store may
 * have written, so each piece counts only if it looks exactly like what it should be; nothing may look like an option of a
 * command, another path, or instructions to a terminal.
 */

import type { OwnerIdentity } from '../../owner.ts';

export interface OwnerFacts {
  readonly pid?: number | undefined;
  /** Clock ticks after the boot. */
  readonly startTicks?: number | undefined;
  /** ms since 1970, by the clock of the owner's machine. */
  readonly startedAt?: number | undefined;
  readonly host?: string | undefined;
  readonly machineId?: string | undefined;
  readonly bootId?: string | undefined;
  readonly pidNamespace?: string | undefined;
  readonly container?: string | undefined;
  readonly pod?: string | undefined;
  readonly podNamespace?: string | undefined;
  readonly node?: string | undefined;
  readonly unit?: string | undefined;
  readonly invocation?: string | undefined;
}

const HOST = /^[A-Za-z0-9_]([A-Za-z0-9_.-]{0,253}[A-Za-z0-9_])?$/;
/** Names of Kubernetes' objects: DNS subdomains, namespaces labels (RFC 1123). */
const SUBDOMAIN = /^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$/;
const LABEL = /^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/;
const CONTAINER = /^[0-9a-f]{12,64}$/;
const UNIT = /^[A-Za-z0-9:_.@\\][A-Za-z0-9:_.@\\-]{0,246}\.(service|scope)$/;
const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;
const ID_128 = /^(?!0{32}$)[0-9a-f]{32}$/;
const NAMESPACE = /^pid:\[[1-9]\d{0,19}\]$/;

/** The largest that Linux gives (PID_MAX_LIMIT of include/linux/threads.h). */
const MAX_PID = 2 ** 22;

export function factsOf(owner: OwnerIdentity): OwnerFacts {
  return {
    pid: whole(owner.pid, 1, MAX_PID),
    startTicks: whole(owner.startTicks, 0, Number.MAX_SAFE_INTEGER),
    startedAt: instant(owner.startedAt),
    host: like(owner.host, HOST),
    machineId: like(owner.machineId, ID_128),
    bootId: like(owner.bootId, UUID),
    pidNamespace: like(owner.pidNamespace, NAMESPACE),
    container: like(owner.container, CONTAINER),
    pod: like(owner.pod, SUBDOMAIN),
    podNamespace: like(owner.podNamespace, LABEL),
    node: like(owner.node, SUBDOMAIN),
    unit: like(owner.unit, UNIT),
    invocation: like(owner.invocation, ID_128),
  };
}

function like(value: unknown, pattern: RegExp): string | undefined {
  return typeof value === 'string' && pattern.test(value) ? value : undefined;
}

function whole(value: unknown, least: number, most: number): number | undefined {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= least && value <= most
    ? value
    : undefined;
}

/** ISO 8601 in UTC alone: what a date without a zone means depends on who reads it. */
function instant(value: unknown): number | undefined {
  const text = like(value, /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d{1,9})?Z$/);
  const ms = text === undefined ? Number.NaN : Date.parse(text);
  return Number.isNaN(ms) ? undefined : ms;
}
