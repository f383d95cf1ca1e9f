import type { HistoryEntry, LeaseManager, OwnerVitals } from '@leasehold/core';
import type { Diagnosis, DiagnoseOptions } from '@leasehold/core/diagnosis';
import type { Target } from '../connection.ts';
import { operatorLine } from '../commands/operator.ts';
import { ownVersion } from '../version.ts';

/** What is written down of an incident. Plain data. */
export interface Incident {
  readonly schema: 'leasehold/incident/v1';
  readonly resource: string;
  readonly namespace: string;
  /** ISO 8601, by the clock of this host. */
  readonly writtenAt: string;
  readonly writtenBy: { readonly operator: string; readonly pid: number; readonly command: string };
  readonly versions: { readonly leasehold: string; readonly node: string; readonly platform: string };
  /** Whom was asked, never with a password. */
  readonly target: { readonly address: string; readonly prefix: string; readonly origin: string | null };
  /** What could not be learned, and why. */
  readonly missing: readonly Missing[];
  /** Verdict, evidence, record, fences, servers, and the commands to check by hand. */
  readonly diagnosis: Diagnosis;
  /** The newest first; null if they could not be read. */
  readonly events: readonly HistoryEntry[] | null;
  /** What the owner has measured of itself; null if it says nothing. */
  readonly vitals: OwnerVitals | null;
}

export interface Missing {
  readonly what: string;
  readonly why: string;
}

const EVENTS = 64;

/** Asks everything that can be asked, and says what could not. Never writes to the store. */
export async function gatherIncident(
  leases: LeaseManager,
  resource: string,
  target: Target,
  options: DiagnoseOptions,
): Promise<Incident> {
  const { diagnose } = await import('@leasehold/core/diagnosis');
  const read = () => leases.history(resource, { limit: EVENTS }).catch((error: unknown) => messageOf(error));
  // At once, so that a silent store is waited for once; but not before something was watched.
  const early = options.observe === true ? undefined : read();
  const diagnosis = await diagnose(leases, resource, options);
  const events = await (early ?? read());
  const { lease } = diagnosis;
  const vitals = lease?.state === 'free' ? undefined : lease?.identity?.vitals;
  return {
    schema: 'leasehold/incident/v1',
    resource,
    namespace: target.prefix,
    writtenAt: new Date().toISOString(),
    writtenBy: { operator: operatorLine(), pid: process.pid, command: 'leasehold evidence' },
    versions: { leasehold: ownVersion(), node: process.version, platform: `${process.platform} ${process.arch}` },
    target: { address: target.address, prefix: target.prefix, origin: target.origin ?? null },
    missing: [
      ...ofDiagnosis(diagnosis),
      ...(typeof events === 'string' ? [{ what: 'events', why: events }] : []),
      ...(vitals === undefined && lease !== null && lease.state !== 'free'
        ? [{ what: 'vitals of the owner', why: 'its record says nothing of them' }]
        : []),
    ],
    diagnosis,
    events: typeof events === 'string' ? null : events,
    vitals: vitals ?? null,
  };
}

function ofDiagnosis({ verdict, lease, owner, fences, servers }: Diagnosis): readonly Missing[] {
  const missing: Missing[] = [];
  if (verdict.code === 'unknown') missing.push({ what: 'record', why: verdict.sentence });
  if (lease !== null && lease.state !== 'free' && owner.state === 'unverifiable') {
    missing.push({ what: "the owner's process", why: owner.detail });
  }
  if (servers.length === 0) missing.push({ what: 'servers', why: 'none could be asked' });
  for (const { endpoint, ...readings } of servers) {
    const byReason = new Map<string, string[]>();
    for (const [name, reading] of Object.entries(readings)) {
      if (reading.known) continue;
      const why = `${reading.why.replace('-', ' ')}: ${reading.detail}`;
      byReason.set(why, [...(byReason.get(why) ?? []), name]);
    }
    for (const [why, names] of byReason) missing.push({ what: `${names.join(', ')} of ${endpoint}`, why });
  }
  if (fences.length === 0) missing.push({ what: 'fences', why: 'no config that names them was asked' });
  for (const { name, highest } of fences) {
    if (highest === undefined) missing.push({ what: `fence ${name}`, why: 'no answer' });
  }
  return missing;
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
