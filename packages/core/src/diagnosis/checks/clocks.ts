/** Clocks. Leases do not depend on them; schedules and logs do. */

import type { ServerEvidence } from '../../store/evidence.ts';
import type { Reading } from '../../store/reading.ts';
import type { NtpState } from '../ntp.ts';
import { check, seconds, type Finding } from './finding.ts';
import type { FoundOwner } from './owners.ts';

const LARGE_MS = 1000;
/** A tick that lies further ahead of the store's clock is refused, by default. */
const AHEAD_MS = 2000;

const KEPT = 'have the clocks of both hosts kept by NTP (chronyc makestep, timedatectl set-ntp true)';

export function checkClock(server: ServerEvidence | undefined): Finding | undefined {
  if (server === undefined) return undefined;
  const its = check('clock', server.endpoint);
  if (!server.clockOffset.known) return its.unknown(server.clockOffset, 'its clock');
  const { offsetMs, errorMs } = server.clockOffset.value;
  // What the round trip leaves open counts for the clocks, not against them.
  const surelyMs = Math.max(0, Math.abs(offsetMs) - errorMs);
  const way = offsetMs < 0 ? 'ahead of' : 'behind';
  const reason = `the clock of this host is ${seconds(Math.abs(offsetMs))} ${way} that of the store (within ${Math.ceil(errorMs)} ms)`;
  if (offsetMs < 0 && surelyMs > AHEAD_MS) return its.error(`${reason}: its ticks are refused as too early`, KEPT);
  return surelyMs >= LARGE_MS ? its.warning(`${reason}: schedules and logs are off by that`, KEPT) : its.ok(reason);
}

export function checkNtp(ntp: Reading<NtpState>): Finding {
  const its = check('ntp', 'this host');
  if (!ntp.known) return its.notice(`nobody tells whether its clock is kept: ${ntp.detail}`);
  const { source, synchronized, offsetMs, stratum } = ntp.value;
  if (!synchronized) return its.warning(`${source} says that nothing keeps its clock: it drifts`, KEPT);
  const off = offsetMs === null ? '' : `, ${seconds(Math.abs(offsetMs))} off`;
  const reason = `its clock is kept${off}${stratum === null ? '' : `, stratum ${stratum}`} (${source})`;
  return offsetMs !== null && Math.abs(offsetMs) >= LARGE_MS ? its.warning(reason, KEPT) : its.ok(reason);
}

export function checkOwnerClocks(owners: readonly FoundOwner[]): Finding | undefined {
  const its = check('owner-clocks', '');
  const offsets = owners.flatMap(({ line, vitals: { clockOffsetMs } }) =>
    clockOffsetMs === null ? [] : [{ line, clockOffsetMs }],
  );
  if (offsets.length === 0) return undefined;
  const off = offsets.filter(({ clockOffsetMs }) => Math.abs(clockOffsetMs) >= LARGE_MS);
  if (off.length === 0) return its.ok(`${offsets.length} owners, each within a second of the store`);
  const each = off.map(({ line, clockOffsetMs }) => `${line} by ${seconds(Math.abs(clockOffsetMs))}`);
  return its.warning(`owners whose clock was off that of the store: ${each.slice(0, 5).join(', ')}`, KEPT);
}
