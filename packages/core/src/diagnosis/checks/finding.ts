/** What a check has found. */

import type { Reading } from '../../store/reading.ts';

/** `error`: leases are lost, or nothing works. `warning`: they will be, on a bad day. `notice`: good to know. */
export type FindingSeverity = 'error' | 'warning' | 'notice' | 'ok';

/** Stable: scripts may decide by them. Their table is in docs/diagnosis.md, in this order. */
export const CHECKS = [
  'store',
  'mode',
  'version',
  'role',
  'masters',
  'eviction',
  'persistence',
  'disk',
  'memory',
  'replicas',
  'sentinels',
  'rights',
  'rights-to-look',
  'clock',
  'ntp',
  'owner-clocks',
  'ttl',
  'refresh-ratio',
  'extensions',
  'fences',
  'fence',
] as const;

export type CheckId = (typeof CHECKS)[number];

export interface Finding {
  readonly id: CheckId;
  readonly severity: FindingSeverity;
  /** Of what: a server, a lease, a fence; empty for the store as a whole. */
  readonly subject: string;
  /** What was found, and why it matters. One sentence. */
  readonly reason: string;
  /** What to do; empty if nothing. */
  readonly remedy: string;
}

/** Of one check on one subject. */
export interface Verdicts {
  readonly ok: (reason: string) => Finding;
  readonly notice: (reason: string, remedy?: string) => Finding;
  readonly warning: (reason: string, remedy: string) => Finding;
  readonly error: (reason: string, remedy: string) => Finding;
  /** What could not be read says nothing, neither good nor bad. */
  readonly unknown: (reading: Reading<unknown>, what: string, remedy?: string) => Finding;
}

export function check(id: CheckId, subject: string): Verdicts {
  const finding = (severity: FindingSeverity, reason: string, remedy: string): Finding => ({
    ...{ id, severity, subject, reason, remedy },
  });
  return {
    ok: (reason) => finding('ok', reason, ''),
    notice: (reason, remedy = '') => finding('notice', reason, remedy),
    warning: (reason, remedy) => finding('warning', reason, remedy),
    error: (reason, remedy) => finding('error', reason, remedy),
    unknown: (reading, what, remedy = 'give the user of this connection the rights that are needed to look') =>
      finding(
        'notice',
        reading.known ? `${what} is not told` : `${what} is ${reading.why.replace('-', ' ')}: ${reading.detail}`,
        reading.known || reading.why !== 'not-permitted' ? '' : remedy,
      ),
  };
}

export function seconds(ms: number): string {
  return ms < 1000 ? `${Math.round(ms)} ms` : `${Math.round(ms / 100) / 10} s`;
}

/** The first of them, and how many more there are. */
export function some(names: readonly string[], most = 5): string {
  const more = names.length - most;
  return more > 0 ? `${names.slice(0, most).join(', ')} and ${more} more` : names.join(', ');
}
