/** Whether what refuses late writes is there, and does. */

import type { Fence } from '../../fence/fence.ts';
import type { ServerEvidence } from '../../store/evidence.ts';
import { messageOf } from '../../thrown.ts';
import { check, some, type Finding } from './finding.ts';
import { checkServer } from './server.ts';
import type { CheckedLease } from './timing.ts';

/** A fence, and what is known of the place that it is in. */
export interface FenceCheck {
  readonly fence: Fence;
  /** What of it is installed; for PostgreSQL `schemaStatus`. Rejects if it cannot be told. */
  readonly status?: (() => Promise<FenceStatus>) | undefined;
  /** The servers of a fence in a Redis, where they are others than those of the store. */
  readonly servers?: (() => Promise<readonly ServerEvidence[]>) | undefined;
}

/** The part of `SchemaStatus` that counts. */
export interface FenceStatus {
  readonly state: 'missing' | 'outdated' | 'current' | 'newer';
  readonly version: number;
  readonly latest: number;
  /** It can be read only. */
  readonly isStandby?: boolean | undefined;
  readonly protectedTables?: readonly { readonly table: string; readonly isEnabled: boolean }[] | undefined;
}

const TIMEOUT_MS = 5000;

export function checkFencing(leases: readonly CheckedLease[]): readonly Finding[] {
  if (leases.length === 0) return [];
  const its = check('fences', '');
  const bare = leases.filter(({ isFenced }) => !isFenced).map(({ name }) => name);
  if (bare.length === 0) return [its.ok(`${leases.length} leases, each with a fence`)];
  return [
    its.warning(
      `nothing refuses what an owner writes that has lost its lease without knowing: ${some(bare)}`,
      'name the fences that the handlers write through (lease.fences)',
    ),
  ];
}

/** `known`: run ids of servers that have been checked. */
export async function checkFence(
  { fence, status, servers }: FenceCheck,
  qualified: string,
  known: ReadonlySet<string>,
): Promise<readonly Finding[]> {
  const [state, its] = await Promise.all([
    checkState(fence, qualified, status),
    servers === undefined ? [] : within(servers()).catch(() => []),
  ]);
  const others = its.filter(({ runId }) => runId.known && !known.has(runId.value));
  return [
    state,
    ...others.slice(0, 1).flatMap((server) =>
      checkServer(server, {
        subject: `${fence.name} (${server.endpoint})`,
        isCluster: server.mode.known && server.mode.value === 'cluster',
        quarantine: false,
      }).filter(({ severity }) => severity !== 'ok'),
    ),
  ];
}

async function checkState(fence: Fence, qualified: string, status: FenceCheck['status']): Promise<Finding> {
  const its = check('fence', fence.name);
  try {
    const [told] = await within(Promise.all([status?.(), status === undefined ? fence.highest(qualified) : undefined]));
    if (told?.state === 'missing') {
      return its.error('is not installed: every write through it fails', 'leasehold fence install, or installSchema');
    }
    if (told?.state === 'outdated') {
      return its.error(
        `is installed as version ${told.version}; this Leasehold needs ${told.latest}`,
        'leasehold fence install, or installSchema',
      );
    }
    if (told?.isStandby === true) {
      return its.error('is on a standby, which admits and refuses nothing', 'name the primary');
    }
    const disabled = (told?.protectedTables ?? []).filter(({ isEnabled }) => !isEnabled).map(({ table }) => table);
    if (disabled.length > 0) {
      return its.error(
        `its trigger is disabled on ${some(disabled)}: a write without a guard gets in`,
        'ALTER TABLE … ENABLE ALWAYS TRIGGER, or leasehold fence protect',
      );
    }
    if (!fence.enforcing) {
      return its.warning(
        'compares and writes in two steps: a late write can get in between',
        'use a fence that is enforcing for what must not be written twice',
      );
    }
    const version =
      told === undefined
        ? ''
        : `, version ${told.version}${told.state === 'newer' ? ' (newer than this Leasehold, which can use it)' : ''}`;
    return its.ok(`answers${version}, enforcing`);
  } catch (error) {
    return its.error(
      `does not answer: ${messageOf(error)}`,
      'look at its server; without it no write gets in, and nothing may be released by force',
    );
  }
}

/** Nobody waits for a fence without end. */
async function within<T>(promise: Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`no answer within ${TIMEOUT_MS} ms`)), TIMEOUT_MS);
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}
