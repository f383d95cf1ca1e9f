import type { HistoryEntry } from '@leasehold/core';
import { describe, expect, test } from 'vitest';
import { axisTicks } from '../../src/output/timeline-axis.ts';
import { timelineSvg } from '../../src/output/timeline-svg.ts';
import { tenuresOf } from '../../src/output/timeline.ts';
import { assertWellFormed } from './well-formed.ts';

const START = Date.parse('2026-11-30T03:00:00Z');
const TOKEN = START * 1000;
const at = (seconds: number): Date => new Date(START + seconds * 1000);

/** At a second, of the tenure with this number. */
function entry(
  event: HistoryEntry['event'],
  seconds: number,
  tenure: number,
  owner = `web-${tenure}`,
  detail = '',
): HistoryEntry {
  return { at: at(seconds), event, owner, fencingToken: TOKEN + tenure, detail, job: null, tick: null };
}

/** The oldest first, for the reader. */
const EVERYTHING = [
  entry('acquired', 0, 1, 'web-7f9c pid 4121'),
  entry('released', 42, 1, 'web-7f9c pid 4121', 'done'),
  entry('acquired', 42.2, 2, 'web-8a10 pid 17'),
  entry('expired', 90, 2, 'web-8a10 pid 17'),
  entry('acquired', 95, 3, 'web-7f9c pid 4121'),
  entry('revoked', 130, 3, 'web-7f9c pid 4121', 'ops@box: INC-4711 <urgent>'),
  entry('lost', 140, 3, 'web-7f9c pid 4121', 'failed'),
  entry('acquired', 150, 4, 'web-8a10 pid 17'),
  entry('refused', 170, 4, 'web-8a10 pid 17'),
  entry('acquired', 170, 5, 'web-8a10 pid 17'),
  entry('adopted', 200, 6, 'worker-1 pid 99'),
  entry('released', 230, 6, 'worker-1 pid 99', 'done'),
  entry('acquired', 231, 7, 'web-7f9c pid 4121'),
].toReversed();

describe('tenures', () => {
  test('begin and end as the log says, the oldest first', () => {
    expect(tenuresOf(EVERYTHING).map(({ from, to, end }) => [from, to, end])).toEqual([
      [at(0), at(42), 'released'],
      [at(42.2), at(90), 'expired'],
      [at(95), at(140), 'lost'],
      [at(150), at(170), 'refused'],
      [at(170), at(200), 'handed-over'],
      [at(200), at(230), 'released'],
      [at(231), null, 'open'],
    ]);
  });

  test('are not what fences were sealed at: that is a token which nobody was granted', () => {
    const sealed = { ...entry('sealed', 100, 3, ''), fencingToken: TOKEN + 4_000_000 };
    const events = [entry('acquired', 95, 3), sealed, entry('released', 140, 3)].toReversed();
    expect(tenuresOf(events).map(({ fencingToken, end }) => [fencingToken, end])).toEqual([[TOKEN + 3, 'released']]);
  });

  test('of a log of exceptions have beginnings and ends that nobody knows, and the last is not said to go on', () => {
    const events = [entry('expired', 10, 1), entry('revoked', 20, 2), entry('adopted', 30, 3)].toReversed();
    expect(tenuresOf(events).map(({ from, to, end }) => [from, to, end])).toEqual([
      [null, at(10), 'expired'],
      [null, at(30), 'handed-over'],
      [at(30), null, 'unknown'],
    ]);
  });

  test('whose end was not kept are not said to go on once somebody else has begun', () => {
    const events = [entry('acquired', 10, 1), entry('acquired', 20, 2)].toReversed();
    expect(tenuresOf(events).map(({ end }) => end)).toEqual(['unknown', 'open']);
  });
});

describe('the timeline as a picture', () => {
  test('has a row for each owner, a bar for each tenure, and everything in words', async () => {
    const svg = timelineSvg('customer:42', EVERYTHING, at(240));
    assertWellFormed(svg);
    expect(svg).not.toContain('Incomplete');
    await expect(svg).toMatchFileSnapshot('timeline.svg');
  });

  test('of a log of exceptions says that it is incomplete', async () => {
    const events = [
      entry('expired', 10, 1),
      entry('revoked', 20, 2, 'web-1', 'ops: why'),
      entry('lost', 26, 2, 'web-1'),
    ];
    const svg = timelineSvg('reports', events.toReversed(), at(30));
    assertWellFormed(svg);
    expect(svg).toContain('Incomplete');
    await expect(svg).toMatchFileSnapshot('timeline-exceptions.svg');
  });

  test('with hostile names is well-formed, and no name becomes markup', () => {
    const hostile = `</text><script>alert(1)</script>"'&amp;]]>\u0000\u001b[2J\n\uFFFE\uD800\u202Egnp`;
    const events = [entry('acquired', 1, 1, hostile), entry('revoked', 2, 1, hostile, hostile)].toReversed();
    const svg = timelineSvg(hostile, events, at(3));
    assertWellFormed(svg);
    expect(svg).not.toContain('<script');
    for (const char of ['\0', '\u001B', '\uFFFE', '\u202E']) expect(svg).not.toContain(char);
  });

  test('is one also without events, with all of them at one instant, and with names that are too long', () => {
    const name = '👩‍👩‍👧'.repeat(100);
    assertWellFormed(timelineSvg('r', [], at(0)));
    assertWellFormed(timelineSvg(name, [entry('released', 5, 1, name), entry('acquired', 5, 1, name)], at(5)));
  });
});

describe('the marks of the axis', () => {
  test.each([
    [0, 0.02, '03:00:00.000', '03:00:00.005'],
    [0, 240, '03:00:00', '03:00:30'],
    [0, 7200, '03:00', '03:15'],
    [0, 3 * 86_400, '11-30 12:00', '12-01 00:00'],
    [0, 40 * 86_400, '2026-12-03', '2026-12-10'],
  ])('from %d to %d s fall on whole units of time', (from, to, first, second) => {
    const ticks = axisTicks(at(from).getTime(), at(to).getTime());
    expect(ticks.slice(0, 2).map(({ label }) => label)).toEqual([first, second]);
    expect(ticks.length).toBeLessThanOrEqual(9);
  });
});
