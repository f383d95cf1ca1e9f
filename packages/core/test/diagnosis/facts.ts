import type { OwnerFinding, OwnerState } from '../../src/diagnosis/probe.ts';
import type { Facts, FenceFact, Observation } from '../../src/diagnosis/verdict.ts';
import type { LeaseRecord } from '../../src/store/store.ts';

export const TTL_MS = 30_000;
export const MARGIN_MS = 1000;
export const NEEDED_MS = TTL_MS + MARGIN_MS;
export const TOKEN = 1_795_987_422_001_234;
const NOW_US = 1_795_987_482_000_000;

/** The record of a lease that was extended so long ago; `sinceMs` beyond the ttl and it has run out. */
export function recordOf(sinceMs: number, rest: Partial<LeaseRecord> = {}): LeaseRecord {
  const extendedUs = NOW_US - sinceMs * 1000;
  const expiresUs = extendedUs + TTL_MS * 1000;
  return {
    state: expiresUs > NOW_US ? 'held' : 'expired',
    owner: 'web-7f9c pid 4121',
    ownerJson: '',
    leaseId: 'lease-1',
    fencingToken: TOKEN,
    ttlMs: TTL_MS,
    acquiredUs: extendedUs,
    extendedUs,
    expiresUs,
    extensions: 0,
    revoked: false,
    previous: null,
    waiting: 0,
    nowUs: NOW_US,
    ...rest,
  };
}

export const free: LeaseRecord = recordOf(60_000, { state: 'free', owner: '', leaseId: '' });

export function ownerThatIs(state: OwnerState): OwnerFinding {
  return { state, probe: 'test', detail: `it is ${state}`, caveat: '', byHand: [] };
}

const fence: FenceFact = { name: 'ledger', enforcing: true, highest: TOKEN, sealed: false };
const unchanged: Observation = { state: 'unchanged', forMs: NEEDED_MS, neededMs: NEEDED_MS };

/** Of a lease that its owner keeps, watched long enough, with an enforcing fence. */
export function factsWith(rest: Partial<Facts> = {}): Facts {
  return {
    resource: 'reports',
    storeTrouble: '',
    masters: 1,
    shape: 'record',
    record: recordOf(5000),
    evictionPolicy: 'noeviction',
    evictedKeys: 0,
    restarted: false,
    fences: [fence],
    loggedSeals: [],
    observation: unchanged,
    owner: ownerThatIs('unverifiable'),
    connections: 1,
    marginMs: MARGIN_MS,
    trustedMs: TTL_MS,
    ageMs: Infinity,
    quarantined: false,
    ...rest,
  };
}
