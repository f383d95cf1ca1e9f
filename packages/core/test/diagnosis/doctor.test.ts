import { readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';

import { checkClock, checkNtp } from '../../src/diagnosis/checks/clocks.ts';
import { checkFence, checkFencing, type FenceStatus } from '../../src/diagnosis/checks/fences.ts';
import { CHECKS, type Finding } from '../../src/diagnosis/checks/finding.ts';
import { findOwners } from '../../src/diagnosis/checks/owners.ts';
import { checkRights } from '../../src/diagnosis/checks/rights.ts';
import { checkReplica, checkServer } from '../../src/diagnosis/checks/server.ts';
import { doctor } from '../../src/diagnosis/doctor.ts';
import { MemoryFence } from '../../src/fence/memory.ts';
import { LeaseManager } from '../../src/lease/manager.ts';
import type { ServerEvidence } from '../../src/store/evidence.ts';
import { MemoryLeaseStore } from '../../src/store/memory.ts';
import { known, unknown } from '../../src/store/reading.ts';
import type { StoreSurvey } from '../../src/store/survey.ts';

const fit: ServerEvidence = {
  endpoint: 'redis-1:6379',
  version: known('7.4.1'),
  mode: known('standalone'),
  role: known('master'),
  runId: known('a'),
  replicationId: known('r'),
  previousReplicationId: known(''),
  uptimeMs: known(3_600_000),
  loading: known(false),
  linkUp: known(null),
  replicas: known([]),
  evictionPolicy: known('noeviction'),
  evictedKeys: known(0),
  usedBytes: known(50),
  maxBytes: known(100),
  persistence: known({ appendOnly: true, fsync: 'everysec', snapshots: '', error: '' }),
  settings: known(true),
  minReplicas: known(0),
  clockOffset: known({ offsetMs: 0, errorMs: 1 }),
};
const about = { subject: 'redis-1:6379', isCluster: false, quarantine: false };
const no = unknown('not-permitted', 'NOPERM');

/** What is not fine, as `<severity> <id>`. */
function wrong(findings: readonly (Finding | undefined)[]): readonly string[] {
  return findings
    .filter((each) => each !== undefined && each.severity !== 'ok')
    .map((each) => `${each?.severity} ${each?.id}`);
}

const replica = { endpoint: 'redis-2:6379', lagMs: 0, lagBytes: 0 };

describe('a server', () => {
  test('that is fit has nothing against it', () => {
    expect(wrong(checkServer(fit, about))).toEqual([]);
    expect(wrong(checkReplica({ ...fit, role: known('replica') }, about))).toEqual([]);
  });

  test.each<[Partial<ServerEvidence>, string]>([
    [{ version: known('6.2.14') }, 'error version'],
    [{ version: known('valkey 7.1.9') }, 'error version'],
    [{ version: known('something') }, 'notice version'],
    [{ mode: known('sentinel') }, 'error mode'],
    [{ mode: known('cluster') }, 'error mode'],
    [{ loading: known(true) }, 'error role'],
    [{ role: known('replica') }, 'error role'],
    [{ evictionPolicy: known('allkeys-lfu') }, 'error eviction'],
    [{ evictionPolicy: known('allkeys-lfu'), maxBytes: known(0) }, 'warning eviction'],
    [{ evictionPolicy: known('allkeys-lfu'), maxBytes: known(0), evictedKeys: known(3) }, 'error eviction'],
    [{ evictionPolicy: known('volatile-lru') }, 'warning eviction'],
    [{ persistence: known({ appendOnly: true, fsync: 'no', snapshots: '', error: '' }) }, 'warning persistence'],
    [{ persistence: known({ appendOnly: false, fsync: '', snapshots: '', error: '' }) }, 'warning persistence'],
    [{ persistence: known({ appendOnly: true, fsync: '', snapshots: '', error: 'no space' }) }, 'error disk'],
    [{ usedBytes: known(90) }, 'warning memory'],
    [{ usedBytes: known(100) }, 'error memory'],
    [{ replicas: known([replica]) }, 'notice replicas'],
    [{ replicas: known([{ ...replica, lagMs: 60_000 }]) }, 'warning replicas'],
    [{ replicas: known([{ ...replica, lagMs: Infinity }]) }, 'warning replicas'],
    [{ replicas: known([replica]), minReplicas: known(2) }, 'error replicas'],
    [{ evictionPolicy: no }, 'notice eviction'],
    [{ persistence: no }, 'notice persistence'],
    [{ version: no }, 'notice version'],
  ])('with %j is told as such', (its, expected) => {
    expect(wrong(checkServer({ ...fit, ...its }, about))).toEqual([expected]);
  });

  test.each<Partial<ServerEvidence>>([
    { version: known('7.0.0') },
    { version: known('8.2.1') },
    { version: known('10.0.0') },
    { version: known('valkey 7.2.0') },
    { version: known('valkey 8.0.1') },
    { usedBytes: known(89) },
    { usedBytes: known(99), maxBytes: known(0) },
    { replicas: known([replica]), minReplicas: known(1) },
  ])('with %j is fit', (its) => {
    expect(wrong(checkServer({ ...fit, ...its }, about))).toEqual([]);
  });

  test('that evicts is not to be told to stop it without the price, and not for this start alone', () => {
    const findings = checkServer({ ...fit, evictionPolicy: known('allkeys-lru') }, about);
    const { remedy = '' } = findings.find(({ id }) => id === 'eviction') ?? {};
    expect(remedy).toContain('all writes fail from then on (OOM), those of leases too');
    expect(remedy).toContain('CONFIG REWRITE; where the server has no configuration file');
  });

  test('that does not tell its settings is not said to have no snapshots', () => {
    const persistence = known({ appendOnly: false, fsync: '', snapshots: '', error: '' });
    const reasons = [known(true as const), no].map(
      (settings) =>
        checkServer({ ...fit, persistence, settings }, about).find(({ id }) => id === 'persistence')?.reason,
    );
    expect(reasons[0]).toMatch(/^keeps nothing/);
    expect(reasons[1]).toMatch(/^has no append-only file, and does not tell of snapshots/);
  });

  test('of a Cluster is one of many, by a connection to the Cluster', () => {
    expect(wrong(checkServer({ ...fit, mode: known('cluster') }, { ...about, isCluster: true }))).toEqual([]);
  });
});

describe('clocks', () => {
  const at = (offsetMs: number, errorMs = 1): Finding | undefined =>
    checkClock({ ...fit, clockOffset: known({ offsetMs, errorMs }) });

  test('are off by what is sure, beyond what the round trip leaves open', () => {
    expect(at(-2100)?.severity).toBe('error');
    expect(at(-2100, 200)?.severity).toBe('warning');
    expect(at(60_000)?.severity).toBe('warning');
    expect(at(1100, 200)?.severity).toBe('ok');
    expect(at(0)?.severity).toBe('ok');
  });

  test('that nothing keeps are told; that nobody says so is no fault', () => {
    const state = { source: 'chronyc', synchronized: true, offsetMs: 3, stratum: 2 } as const;
    expect(checkNtp(known(state)).severity).toBe('ok');
    expect(checkNtp(known({ ...state, offsetMs: null })).severity).toBe('ok');
    expect(checkNtp(known({ ...state, synchronized: false })).severity).toBe('warning');
    expect(checkNtp(known({ ...state, offsetMs: -1500 })).severity).toBe('warning');
    expect(checkNtp(unknown('not-known', 'chronyc: not installed')).severity).toBe('notice');
  });
});

describe('a fence', () => {
  const status: FenceStatus = { state: 'current', version: 3, latest: 3, isStandby: false, protectedTables: [] };
  const asked = async (its: Partial<FenceStatus>, fence = new MemoryFence({ name: 'ledger' })) =>
    checkFence({ fence, status: async () => ({ ...status, ...its }) }, 'shop/doctor', new Set());

  test.each<[Partial<FenceStatus>, string[]]>([
    [{}, []],
    [{ state: 'newer', version: 4 }, []],
    [{ state: 'missing' }, ['error fence']],
    [{ state: 'outdated', version: 2 }, ['error fence']],
    [{ isStandby: true }, ['error fence']],
    [{ protectedTables: [{ table: 'a', isEnabled: true }] }, []],
    [{ protectedTables: [{ table: 'a', isEnabled: false }] }, ['error fence']],
  ])('of which its place says %j', async (its, expected) => {
    expect(wrong(await asked(its))).toEqual(expected);
  });

  test('that compares and writes in two steps, or does not answer, is told', async () => {
    const fence = new MemoryFence({ name: 'ledger' });
    const loose = Object.assign(Object.create(fence) as MemoryFence, { enforcing: false });
    expect(wrong(await asked({}, loose))).toEqual(['warning fence']);
    const failing = Object.assign(Object.create(fence) as MemoryFence, {
      highest: () => Promise.reject(new Error('down')),
    });
    const [finding] = await checkFence({ fence: failing }, 'shop/doctor', new Set());
    expect(finding).toMatchObject({ severity: 'error', reason: 'does not answer: down' });
  });

  test('in a Redis of its own is as good as that one; in that of the store it was looked at', async () => {
    const servers = async () => [{ ...fit, evictionPolicy: known('allkeys-lru') }];
    const check = { fence: new MemoryFence({ name: 'ledger' }), servers };
    expect(wrong(await checkFence(check, 'shop/doctor', new Set(['b'])))).toEqual(['error eviction']);
    expect(wrong(await checkFence(check, 'shop/doctor', new Set(['a'])))).toEqual([]);
    const unknownServers = { ...check, servers: () => Promise.reject(new Error('down')) };
    expect(wrong(await checkFence(unknownServers, 'shop/doctor', new Set()))).toEqual([]);
  });

  test('is missing where leases name none', () => {
    const lease = (name: string, isFenced: boolean) => ({ name, ttlMs: 1000, isFenced });
    expect(checkFencing([])).toEqual([]);
    expect(wrong(checkFencing([lease('a', true)]))).toEqual([]);
    const [found] = checkFencing(['a', 'b', 'c', 'd', 'e', 'f', 'g'].map((name) => lease(name, false)));
    expect(found).toMatchObject({ severity: 'warning', reason: expect.stringMatching(/: a, b, c, d, e and 2 more$/) });
  });
});

describe('a store', () => {
  const rights = {
    missing: [],
    missingToLook: [],
    onlyLooks: false,
    mayFlush: false,
    smallest: { own: 'ACL own', look: 'ACL look' },
  };
  const survey: StoreSurvey = {
    usable: known(true),
    isCluster: false,
    sentinels: null,
    servers: [fit],
    rights: known(rights),
  };

  async function wrongWith(its: Partial<StoreSurvey>): Promise<readonly string[]> {
    const store = Object.assign(new MemoryLeaseStore(), { survey: async () => ({ ...survey, ...its }) });
    await using manager = new LeaseManager({ store });
    const { findings } = await doctor(manager, { leases: [] });
    return wrong(findings.filter(({ id }) => id !== 'ntp'));
  }

  test('is as good as its servers, together', async () => {
    const master = { ...fit, endpoint: 'redis-2:6379', runId: known('b') };
    const second = { ...master, role: known('replica' as const) };
    const gone = unknown('unreachable', 'no answer');
    expect(await wrongWith({})).toEqual([]);
    expect(await wrongWith({ servers: [fit, second] })).toEqual([]);
    expect(await wrongWith({ servers: [fit, master] })).toEqual(['error masters']);
    expect(await wrongWith({ servers: [fit, { ...second, evictionPolicy: known('allkeys-lru') }] })).toEqual([
      'error eviction',
    ]);
    expect(await wrongWith({ servers: [fit, { ...second, role: gone }] })).toEqual(['warning role']);
    expect(await wrongWith({ sentinels: 3 })).toEqual([]);
    expect(await wrongWith({ sentinels: 1 })).toEqual(['warning sentinels']);
    expect(await wrongWith({ usable: gone, rights: gone, servers: [] })).toEqual(['error store']);
  });

  test('of a Cluster is asked at each primary', async () => {
    const node = { ...fit, mode: known('cluster') };
    const other = { ...node, endpoint: 'redis-2:6379', runId: known('b'), replicationId: known('s') };
    const wrongAt = (its: Partial<ServerEvidence>): Promise<readonly string[]> =>
      wrongWith({ servers: [node, { ...other, ...its }], isCluster: true });
    expect(await wrongAt({})).toEqual([]);
    expect(await wrongAt({ maxBytes: known(40) })).toEqual(['error memory']);
    // One that has the history of another is not one of many.
    expect(await wrongAt({ previousReplicationId: known('r') })).toEqual(['error masters']);
    // What only a primary can have wrong.
    expect(await wrongAt({ minReplicas: known(1) })).toEqual(['error replicas']);
  });

  test('in memory has what it has', async () => {
    await using manager = new LeaseManager({ store: new MemoryLeaseStore() });
    const found = await doctor(manager);
    expect(found).toMatchObject({ smallestAcl: null, reached: true, severity: 'warning' });
    // A lease there ends with its process, and its owner with it.
    expect(wrong(found.findings)).toContain('warning persistence');
    // Another store may have nothing to say.
    const silent = Object.assign(new MemoryLeaseStore(), { survey: undefined });
    await using other = new LeaseManager({ store: silent });
    expect(await doctor(other)).toMatchObject({ reached: false, severity: 'error' });
  });

  test('whose user lacks something is told what, and how much it matters', () => {
    const lacking = (missing: readonly [string, boolean][]): readonly string[] =>
      wrong(checkRights(known({ ...rights, missing: missing.map(([right, isNeeded]) => ({ right, isNeeded })) })));
    expect(lacking([])).toEqual([]);
    expect(lacking([['+xadd', false]])).toEqual(['warning rights']);
    expect(
      lacking([
        ['+xadd', false],
        ['+hset', true],
      ]),
    ).toEqual(['error rights']);
    expect(wrong(checkRights(no))).toEqual(['error rights']);
    expect(wrong(checkRights(unknown('unreachable', 'x')))).toEqual(['notice rights']);
  });

  test('whose leases cannot be listed to the end says so', async () => {
    const store = new MemoryLeaseStore();
    await using manager = new LeaseManager({ store });
    await using _lease = await manager.acquire('a');
    const cut = Object.assign(Object.create(store) as MemoryLeaseStore, {
      async *list(call: { readonly timeoutMs: number }) {
        yield* store.list(call);
        throw new Error('gone');
      },
    });
    expect(await findOwners(cut, { timeoutMs: 1000 })).toMatchObject({
      leases: 1,
      trouble: expect.stringContaining('gone'),
    });
  });
});

test('every check has its row in the page, and the page no other', () => {
  const page = readFileSync(new URL('../../../../docs/diagnosis.md', import.meta.url), 'utf8');
  const section = page.split('\n## Is this store fit\n')[1]?.split('\n## ')[0] ?? '';
  const rows = [...section.matchAll(/^\| `([a-z-]+)` \|/gm)].map(([, id]) => id);
  expect(rows).toEqual(CHECKS);
});
