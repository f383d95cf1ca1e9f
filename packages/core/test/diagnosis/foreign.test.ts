import { expect, test } from 'vitest';

import { type ForeignLibrary, recogniseForeign } from '../../src/diagnosis/foreign.ts';

const uuid = 'f9d5a2a8-0d6c-4a3e-9b59-3a2f6f1f8a11';
const hex = '9f86d081884c7d659a2feaa0c55ad015';
const jid = 'b4a577edbccf1d805744efa9';

// In the form in which the sources of redlock 4.2, redlock-universal 0.8, redis-semaphore 5.8, BullMQ 6.7, ShedLock, Redisson
// and sidekiq-unique-jobs write them; not taken from running ones.
test.each<[string, string, [type: string, preview: string], Record<string, string>, ForeignLibrary, string, RegExp]>([
  ['redlock', 'locks:reports', ['string', hex], {}, 'redlock', 'possible', /random/],
  ['redis-semaphore', 'mutex:reports', ['string', uuid], {}, 'redis-semaphore', 'likely', /uuid/],
  ['its suffix', 'mutex:reports', ['string', `${uuid}-web-7`], {}, 'redis-semaphore', 'likely', /identifierSuffix/],
  ['its key prefix', 'app:mutex:reports', ['string', uuid], {}, 'redis-semaphore', 'likely', /uuid/],
  [
    'its semaphore',
    'semaphore:reports',
    ['zset', ''],
    { [uuid]: '1768444867123' },
    'redis-semaphore',
    'likely',
    /clock/,
  ],
  ['its multi semaphore', 'semaphore:r', ['zset', `${uuid}_0 ${uuid}_1`], {}, 'redis-semaphore', 'likely', /permit/],
  [
    'ShedLock',
    'job-lock:default:reports',
    ['string', `ADDED:2026-01-15T02:41:07.123Z@web-7:${uuid}`],
    {},
    'shedlock',
    'certain',
    /02:41:07.123Z .* host web-7;/,
  ],
  [
    'ShedLock before',
    'x',
    ['string', 'ADDED:2026-01-15T02:41:07Z@web-7.example'],
    {},
    'shedlock',
    'certain',
    /host web-7\.example;/,
  ],
  ['Redisson', 'reports', ['hash', ''], { [`${uuid}:87`]: '1' }, 'redisson', 'certain', /87 its thread/],
  ['Redisson by its preview', 'reports', ['hash', `${uuid}:87 1`], {}, 'redisson', 'likely', /87 its thread/],
  [
    'Redisson, to write',
    'r',
    ['hash', ''],
    { mode: 'write', [`${uuid}:87:write`]: '1' },
    'redisson',
    'certain',
    /thread/,
  ],
  ['BullMQ', 'bull:reports:42:lock', ['string', `${uuid}:17`], {}, 'bullmq', 'likely', /one worker/],
  ['BullMQ by hand', 'bull:reports:42:lock', ['string', 'my-token'], {}, 'bullmq', 'possible', /getNextJob/],
  ['BullMQ in a Cluster', '{bull}:reports:42:lock', ['string', `${uuid}:0`], {}, 'bullmq', 'likely', /one worker/],
  ['Sidekiq', 'uniquejobs:c9e4f70a93ec7b29f57842219285f439', ['string', jid], {}, 'sidekiq', 'likely', new RegExp(jid)],
  [
    'Sidekiq, locked',
    'uniquejobs:c9e4:LOCKED',
    ['hash', ''],
    { [jid]: '1768444867.12' },
    'sidekiq',
    'likely',
    new RegExp(jid),
  ],
  ['a bare one', 'lock', ['string', '1'], {}, 'bare SETNX', 'possible', /nothing but/],
  ['a bare uuid', 'lock', ['string', uuid], {}, 'bare SETNX', 'possible', /uuid/],
  ['a bare time', 'lock', ['string', '1768444867'], {}, 'bare SETNX', 'possible', /2026-01-15T02:41:07.000Z/],
  ['a bare time in ms', 'lock', ['string', '1768444867123'], {}, 'bare SETNX', 'possible', /2026-01-15T02:41:07.123Z/],
  ['a bare process', 'lock', ['string', 'web-7:4121'], {}, 'bare SETNX', 'possible', /host web-7 and process 4121/],
  ['a bare text', 'lock', ['string', 'mine!'], {}, 'bare SETNX', 'possible', /not known/],
  [
    'half of ours',
    'leasehold:{r}',
    ['hash', ''],
    { lease_id: hex, fencing_token: '7' },
    'leasehold (older or broken)',
    'likely',
    /lease_id/,
  ],
  ['a list', 'x', ['list', 'a'], {}, 'unknown', 'possible', /not known/],
  ['some hash', 'x', ['hash', ''], { a: '1' }, 'unknown', 'possible', /not known/],
  ['a lease of others', 'x', ['hash', 'lease_id=7 note=terminated'], {}, 'unknown', 'possible', /not known/],
])('the lock of another library is recognised: %s', (_, key, [type, preview], fields, library, confidence, owner) => {
  const found = recogniseForeign(key, { type, preview, ttlMs: 12_000 }, fields);
  expect(found).toMatchObject({ library, confidence, ownerString: expect.stringMatching(owner) });
  expect(found.howToCheck.length).toBeGreaterThan(0);
  expect(found.sentence).toMatch(
    /^This (is|looks like|may be) .*expires in 12 s unless extended; Leasehold neither changes nor/,
  );
});

test('a lock that never expires is told to be one, and is not taken for that of a library that always sets an expiry', () => {
  const found = recogniseForeign('locks:reports', { type: 'string', preview: hex, ttlMs: null });
  expect(found).toMatchObject({ library: 'bare SETNX', sentence: expect.stringContaining('never expires') });
  expect(found.howToCheck[0]).toContain('OBJECT IDLETIME');
});
