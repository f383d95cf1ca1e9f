import type { LeaseInfo } from '@leasehold/core';
import stringWidth from 'string-width';
import { describe, expect, test } from 'vitest';
import { styleOf } from '../../src/output/style.ts';
import { topFrame, type TopView } from '../../src/output/top-frame.ts';

const AT = new Date('2026-11-30T03:00:00Z');

function lease(resource: string, fields: Partial<LeaseInfo> = {}): LeaseInfo {
  return {
    resource,
    state: 'held',
    owner: 'web-7f9c pid 4121 since 02:41:07Z v1.18.0',
    identity: null,
    leaseId: 'id',
    fencingToken: 1_796_007_600_000_000,
    ttlMs: 30_000,
    remainingMs: 24_300,
    acquiredAt: AT,
    extendedAt: AT,
    expiresAt: AT,
    extensions: 3,
    revoked: false,
    waiting: 0,
    readAt: AT,
    previous: null,
    ...fields,
  };
}

const LEASES = [
  lease('reports', { state: 'free', owner: '' }),
  lease('customer:42', { waiting: 2 }),
  lease('customer:43', { remainingMs: 4000 }),
  lease('nightly\u001B[2J', { state: 'expired' }),
  lease('日本'.repeat(30), { ttlMs: 3_600_000, remainingMs: 3_599_000, revoked: true }),
  ...Array.from({ length: 20 }, (_, index) => lease(`order:${index + 10}`)),
];

function view(fields: Partial<TopView> = {}): TopView {
  const target = 'redis://cache-3:6379/0 · prefix shop';
  return { target, at: AT, leases: LEASES, filter: '', isTyping: false, trouble: undefined, ...fields };
}

function frame(its: TopView, width: number, height: number): Promise<readonly string[]> {
  return topFrame(its, { width, height, style: styleOf(false) });
}

describe('a picture of the live view', () => {
  test('has the counts, the most trouble first, and what is not shown in its last line', async () => {
    expect((await frame(view(), 80, 11)).join('\n')).toMatchInlineSnapshot(`
      "23 HELD · 1 EXPIRED · 1 FREE · 2 waiting
      03:00:00 UTC · redis://cache-3:6379/0 · prefix shop
      STATE     RESOURCE                     OWNER              LEFT  WAIT  NOTE
      EXPIRED   nightly\\u{1b}[2J             web-7f9c …            -     0  ran out, …
      HELD      customer:43                  web-7f9c …        4.0 s     0  not exten…
      STOPPING  日本日本日本日本日本日本日…  web-7f9c …  59 min 59 s     0  asked to …
      HELD      customer:42                  web-7f9c …       24.3 s     2  -
      HELD      order:10                     web-7f9c …       24.3 s     0  -
      HELD      order:11                     web-7f9c …       24.3 s     0  -
      HELD      order:12                     web-7f9c …       24.3 s     0  -
      q quits · / filters · 18 more"
    `);
  });

  test('fits into every terminal', async () => {
    const trouble = { message: 'STORE_UNAVAILABLE cannot be reached '.repeat(9), sinceMs: 12_400 };
    for (const width of [1, 10, 20, 40, 60, 79, 80, 200]) {
      for (const height of [1, 2, 3, 4, 5, 6, 24, 60]) {
        for (const its of [view(), view({ trouble, filter: '日本', isTyping: true }), view({ leases: [] })]) {
          const lines = await topFrame(its, { width, height, style: styleOf(true) });
          const widest = Math.max(...lines.map((line) => stringWidth(line)));
          expect({ width, height, fits: widest <= width && lines.length <= height && lines.length > 0 }).toEqual({
            width,
            height,
            fits: true,
          });
        }
      }
    }
  });

  test('shows names, and obeys none', async () => {
    expect((await frame(view(), 200, 24)).join('\n')).toContain('nightly\\u{1b}[2J');
  });

  test('at 80 columns has the state, the token and the time left whole', async () => {
    const lines = await frame(view({ leases: [lease('customer:42')] }), 80, 24);
    expect(lines.join('\n')).toMatch(/HELD +customer:42 .*1796007600000000 +24\.3 s/);
  });

  test('filters by resource or owner, and says so', async () => {
    const lines = await frame(view({ filter: 'customer:4' }), 100, 24);
    expect(lines.filter((line) => line.startsWith('HELD'))).toHaveLength(2);
    expect(lines.at(-1)).toBe("q quits · / filters · only 'customer:4' · Esc shows all");
    expect(
      (await frame(view({ filter: 'pid 4121' }), 100, 60)).filter((line) => /^(HELD|STOPPING)/.test(line)),
    ).toHaveLength(23);
    expect((await frame(view({ filter: 'nothing' }), 100, 24)).join('\n')).toContain('No resource matches.');
  });

  test('says how old it is when the store does not answer', async () => {
    const trouble = { message: 'STORE_UNAVAILABLE no answer', sinceMs: 12_400 };
    expect((await frame(view({ trouble }), 80, 24))[2]).toBe('As of 12.4 s ago: STORE_UNAVAILABLE no answer');
  });
});
