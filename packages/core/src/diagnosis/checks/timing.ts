/** Whether leases are long enough for what their owners go through. */

import { adviseTiming, type TimingAdviceRequest } from '../../lease/timing-advice.ts';
import type { OwnerVitals } from '../../owner.ts';
import { check, seconds, some, type Finding } from './finding.ts';
import type { FoundOwner, FoundOwners } from './owners.ts';

/** A lease as it is configured. */
export interface CheckedLease {
  /** What it is called in findings: a job, a resource. */
  readonly name: string;
  readonly ttlMs: number;
  /** Whether a fence refuses what is written after it was lost. */
  readonly isFenced: boolean;
}

export interface TimingChecks {
  readonly leases: readonly CheckedLease[];
  /** Of the managers of owners. */
  readonly timing: Pick<TimingAdviceRequest, 'refreshRatio' | 'driftRate' | 'safetyMarginMs'>;
  readonly multiplier: number;
  /** Of this process. */
  readonly vitals: OwnerVitals;
  readonly found: FoundOwners;
}

/** Beyond it, two extensions in a row had no answer at the usual refresh. */
const LATE_PART = 2 / 3;

export function checkTiming(checks: TimingChecks): readonly Finding[] {
  const { leases, timing, found } = checks;
  return [
    ...leases.map((lease) => ofLease(lease, checks)),
    ...ofOwners(found.owners, checks),
    ...(leases.length === 0 ? [] : ratio(timing.refreshRatio ?? 3)),
    ...extensions(found),
  ];
}

function ofLease({ name, ttlMs }: CheckedLease, { timing, multiplier, vitals, found }: TimingChecks): Finding {
  const its = check('ttl', name);
  const measured = [vitals, ...found.owners.map((owner) => owner.vitals)];
  if (!measured.some(isMeasured)) {
    return its.notice(
      `${seconds(ttlMs)}; no owner has measured anything yet, so nobody can tell whether that is long enough`,
      'ask again while jobs run',
    );
  }
  const request = { ...timing, ttlMs, vitals: measured };
  return shortness(request, multiplier) === 'enough'
    ? its.ok(`${seconds(ttlMs)}; ${adviseTiming({ ...request, multiplier }).why}`)
    : tooShort(its, request, multiplier);
}

/** Of the owners that are there, whatever this configuration says. */
function ofOwners(owners: readonly FoundOwner[], { timing, multiplier }: TimingChecks): readonly Finding[] {
  return owners.flatMap(({ resource, ttlMs, vitals }) => {
    if (!isMeasured(vitals)) return [];
    const request = { ...timing, ttlMs, vitals };
    return shortness(request, multiplier) === 'enough'
      ? []
      : [tooShort(check('ttl', `lease ${resource}`), request, multiplier)];
  });
}

function tooShort(its: ReturnType<typeof check>, request: TimingAdviceRequest, multiplier: number): Finding {
  const { shortestTtlMs, why } = adviseTiming({ ...request, multiplier });
  const remedy = `raise lease.ttl to ${seconds(shortestTtlMs)}, or find what delays the process`;
  return shortness(request, multiplier) === 'lost'
    ? its.error(`${seconds(request.ttlMs)} is shorter than what has been measured already: ${why}`, remedy)
    : its.warning(`${seconds(request.ttlMs)} leaves no room for worse than what has been measured: ${why}`, remedy);
}

/** `lost`: what was measured once is enough to lose the lease. */
function shortness(request: TimingAdviceRequest, multiplier: number): 'enough' | 'tight' | 'lost' {
  const { ttlMs } = request;
  if (ttlMs >= adviseTiming({ ...request, multiplier }).shortestTtlMs) return 'enough';
  const least = adviseTiming({ ...request, multiplier: 1 }).shortestTtlMs;
  // Shorter than a second is tight whatever was measured.
  return ttlMs < least && least > 1000 ? 'lost' : 'tight';
}

function isMeasured({ worstPauseMs, worstRoundTripMs, worstClockStepMs }: OwnerVitals): boolean {
  return worstPauseMs > 0 || worstRoundTripMs > 0 || worstClockStepMs > 0;
}

function ratio(refreshRatio: number): readonly Finding[] {
  const its = check('refresh-ratio', '');
  if (refreshRatio >= 3 && refreshRatio <= 5) return [its.ok(`a lease is extended ${refreshRatio} times in its ttl`)];
  return [
    its.warning(
      refreshRatio < 3
        ? `a lease is extended ${refreshRatio} times in its ttl: one extension without an answer can lose it`
        : `a lease is extended ${refreshRatio} times in its ttl: the store is asked more than it helps`,
      'set refreshRatio to 3 to 5',
    ),
  ];
}

function extensions({ owners, leases, trouble }: FoundOwners): readonly Finding[] {
  const its = check('extensions', '');
  if (trouble !== '') return [its.notice(trouble)];
  const late = owners.filter(({ vitals }) => vitals.worstExtensionRatio >= LATE_PART);
  const remedy = 'LeaseExtensionLate tells when; look for pauses of that process, then at the store';
  if (late.length > 0) {
    const each = late.map(
      ({ line, vitals }) => `${line}, once after ${vitals.worstExtensionRatio.toFixed(2)} of the ttl`,
    );
    return [its.warning(`owners that were nearly too late: ${some([...new Set(each)])}`, remedy)];
  }
  const failed = owners.filter(({ vitals }) => vitals.failedExtensions > 0);
  if (failed.length > 0) {
    const each = failed.map(({ line, vitals }) => `${line} ${vitals.failedExtensions}`);
    return [its.notice(`extensions without an answer: ${some([...new Set(each)])}`, remedy)];
  }
  if (leases === 0) return [];
  return [its.ok(`leases held: ${leases}, by owners that say how they are: ${owners.length}; none was late`)];
}
