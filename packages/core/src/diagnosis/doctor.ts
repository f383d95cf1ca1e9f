/** Is this store fit to keep leases, and are these leases fit for these processes? */

import type { LeaseManager } from '../lease/manager.ts';
import { qualify } from '../names.ts';
import type { ServerEvidence } from '../store/evidence.ts';
import { unknown, valueOf } from '../store/reading.ts';
import type { StoreRights, StoreSurvey } from '../store/survey.ts';
import { messageOf } from '../thrown.ts';
import { checkClock, checkNtp, checkOwnerClocks } from './checks/clocks.ts';
import { checkFence, checkFencing, type FenceCheck } from './checks/fences.ts';
import { check, type Finding, type FindingSeverity } from './checks/finding.ts';
import { findOwners } from './checks/owners.ts';
import { checkRights } from './checks/rights.ts';
import { checkReplica, checkServer, type ServerChecks } from './checks/server.ts';
import { checkTiming, type CheckedLease } from './checks/timing.ts';
import { mastersOf } from './masters.ts';
import { readNtp } from './ntp.ts';
import { parseDoctorOptions } from './options.ts';

export interface DoctorOptions {
  /** The leases that are configured. Default: one with the ttl of the manager, fenced if `fences` names one. */
  readonly leases?: readonly CheckedLease[] | undefined;
  /** Default: none. */
  readonly fences?: readonly FenceCheck[] | undefined;
  /** How many times the worst that owners have measured must fit into a lease. 1 to 100. Default: 2. */
  readonly multiplier?: number | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** What was found. Plain data. */
export interface Checkup {
  readonly schema: 'leasehold/doctor/v1';
  readonly namespace: string;
  readonly store: string;
  /** ISO 8601, by this host's clock. */
  readonly at: string;
  /** The worst of the findings. */
  readonly severity: FindingSeverity;
  /** False if the store answered nothing: then nothing is known of it. */
  readonly reached: boolean;
  /** The worst first. */
  readonly findings: readonly Finding[];
  readonly servers: readonly ServerEvidence[];
  /** Commands that make users with just the rights that are needed; null for a store that knows no users. */
  readonly smallestAcl: StoreRights['smallest'] | null;
}

const SEVERITIES: readonly FindingSeverity[] = ['error', 'warning', 'notice', 'ok'];

/**
 * Asks the store, the fences and this host, and judges. Never writes. A store that cannot be asked is a finding, not an
 * error. Rejects with `ConfigError`, with `ManagerClosedError`, and with the signal's reason.
 */
export async function doctor(manager: LeaseManager, options: DoctorOptions = {}): Promise<Checkup> {
  const { store, clock, call, timing, vitals, quarantine } = manager.ground;
  const { leases, fences = [], multiplier = 2, signal } = parseDoctorOptions(options);
  const [survey, ntp] = await Promise.all([
    store.survey?.(call).catch((error: unknown) => silent(messageOf(error))) ?? silent('it tells nothing of itself'),
    readNtp(),
  ]);
  signal?.throwIfAborted();
  const { usable, servers, rights } = survey;
  const known = new Set(servers.map(({ runId }) => valueOf(runId)).filter((each) => each !== undefined));
  const [found, ofFences] = await Promise.all([
    usable.known ? findOwners(store, call, signal) : { owners: [], leases: 0, trouble: '' },
    Promise.all(fences.map((each) => checkFence(each, qualify(store.namespace, 'doctor'), known))),
  ]);
  signal?.throwIfAborted();

  const { ttlMs, ...itsTiming } = timing;
  const configured = leases ?? [{ name: 'default', ttlMs, isFenced: fences.length > 0 }];
  const findings = [
    ofStore(survey),
    ...ofServers(survey, quarantine),
    ...ofGroup(survey),
    ...(usable.known || valueOf(rights) !== undefined ? checkRights(rights) : []),
    usable.known ? checkClock(servers[0]) : undefined,
    checkNtp(ntp),
    checkOwnerClocks(found.owners),
    ...checkTiming({
      leases: configured,
      timing: itsTiming,
      multiplier,
      vitals,
      found,
    }),
    ...checkFencing(configured),
    ...ofFences.flat(),
  ].filter((each) => each !== undefined);
  const sorted = SEVERITIES.flatMap((severity) => findings.filter((each) => each.severity === severity));
  return {
    schema: 'leasehold/doctor/v1',
    namespace: store.namespace,
    store: store.description,
    at: new Date(clock.wallMs()).toISOString(),
    severity: sorted[0]?.severity ?? 'ok',
    reached: usable.known || servers.some(({ clockOffset, version }) => clockOffset.known || version.known),
    findings: sorted,
    servers,
    smallestAcl: valueOf(rights)?.smallest ?? null,
  };
}

/** Of a store that says nothing. */
function silent(detail: string): StoreSurvey {
  const reason = unknown('not-known', detail);
  return { usable: reason, isCluster: false, sentinels: null, servers: [], rights: reason };
}

function ofStore({ usable }: StoreSurvey): Finding {
  const its = check('store', '');
  if (usable.known) return its.ok('answers');
  return its.error(
    `cannot be used: ${usable.detail}`,
    usable.why === 'not-permitted'
      ? 'check user, password and the rights of that user'
      : 'check the address, the network and the server',
  );
}

/** Without those that nobody can tell anything of: that they are out of reach is said once. */
function ofServers({ servers, isCluster }: StoreSurvey, quarantine: boolean): readonly Finding[] {
  return servers.flatMap((server, at) => {
    const about: ServerChecks = { subject: server.endpoint, isCluster, quarantine };
    if (!server.role.known && server.role.why === 'unreachable') {
      return at === 0
        ? []
        : [
            check('role', server.endpoint).warning(
              'is named by others and cannot be reached',
              'repair it, or have it forgotten',
            ),
          ];
    }
    const isAsked = at === 0 || (isCluster && valueOf(server.role) === 'master');
    return isAsked ? checkServer(server, about) : checkReplica(server, about);
  });
}

function ofGroup({ servers, sentinels }: StoreSurvey): readonly Finding[] {
  const findings: Finding[] = [];
  const masters = servers.filter(({ role }) => valueOf(role) === 'master');
  // On a Cluster each primary has rivals of its own.
  const rivals = masters.filter((each) => mastersOf([each, ...masters.filter((other) => other !== each)]) > 1);
  if (rivals.length > 1) {
    findings.push(
      check('masters', '').error(
        `${rivals.map(({ endpoint }) => endpoint).join(' and ')} say that they are the primary of the same data: each may grant the same lease`,
        'stop what acquires, then end the one that was replaced',
      ),
    );
  }
  if (sentinels !== null && sentinels < 3) {
    findings.push(
      check('sentinels', '').warning(
        `only ${sentinels} of them named: if they are out of reach nobody finds the primary, and two cannot outvote one that is wrong`,
        'name three or more, on machines of their own',
      ),
    );
  }
  return findings;
}
