import { describe, expect, test } from 'vitest';
import { escapeJson, escapeText } from '../../src/output/escape.ts';
import { hasColour, styleOf } from '../../src/output/style.ts';
import { aligned, tabbed, type Column } from '../../src/output/table.ts';
import { formatDuration, formatRelative, untilOf } from '../../src/output/time.ts';

describe('a name from the store', () => {
  test.each([
    { shown: '\\u{1b}[2J\\u{7}', text: '\u001B[2J\u0007' },
    { shown: 'a\\tb\\nc\\r', text: 'a\tb\nc\r' },
    { shown: '\\u{9b}31m', text: '\u009B31m' },
    { shown: 'a\\u{202e}gnp.exe', text: 'a\u202Egnp.exe' },
    { shown: 'zero\\u{200b}width\\u{feff}', text: 'zero\u200Bwidth\uFEFF' },
    { shown: 'line\\u{2028}paragraph\\u{2029}', text: 'line\u2028paragraph\u2029' },
    { shown: 'half \\u{d83c} pair', text: 'half \uD83C pair' },
    { shown: 'plain ümlaut 日本 👩‍🚒 %s ${x}', text: 'plain ümlaut 日本 👩‍🚒 %s ${x}' },
  ])('is printed, not obeyed: $shown', ({ text, shown }) => expect(escapeText(text)).toBe(shown));
});

test('in JSON it is the same name, and printed', () => {
  const name = 'a\u009B31m\u202Egnp\u2028\u001B"\\ü日🎉';
  const json = escapeJson(JSON.stringify({ name }));
  expect(JSON.parse(json)).toEqual({ name });
  expect(json).toBe('{"name":"a\\u009b31m\\u202egnp\\u2028\\u001b\\"\\\\ü日🎉"}');
});

describe('a duration', () => {
  test.each([
    [0, '0 ms'],
    [-5, '0 ms'],
    [999.9, '999 ms'],
    [1000, '1.0 s'],
    [12_499, '12.4 s'],
    [59_999, '59.9 s'],
    [60_000, '1 min'],
    [423_000, '7 min 3 s'],
    [7_500_000, '2 h 5 min'],
    [273_600_000, '3 d 4 h'],
  ])('of %d ms is %s, never more than it is', (ms, text) => expect(formatDuration(ms)).toBe(text));

  test('lies before or after now', () => {
    expect(formatRelative(new Date(1000), 4000)).toBe('3.0 s ago');
    expect(formatRelative(new Date(124_000), 4000)).toBe('in 2 min');
  });

  test('ends at an instant that is never too early', () => {
    expect([0, 1, 1000].map(untilOf)).toEqual(['1970-01-01T00:00:00Z', '1970-01-01T00:00:01Z', '1970-01-01T00:00:01Z']);
  });
});

describe('colour', () => {
  const tty = { write: () => {}, isTTY: true };
  const pipe = { write: () => {} };
  test.each([
    ['on a terminal', tty, {}, false, true],
    ['in a pipe', pipe, {}, false, false],
    ['with NO_COLOR', tty, { NO_COLOR: '1' }, false, false],
    ['with an empty NO_COLOR, which counts as none', tty, { NO_COLOR: '' }, false, true],
    ['with FORCE_COLOR in a pipe', pipe, { FORCE_COLOR: '1' }, false, true],
    ['with FORCE_COLOR=0', tty, { FORCE_COLOR: '0' }, false, false],
    ['with FORCE_COLOR and NO_COLOR', pipe, { FORCE_COLOR: '1', NO_COLOR: '1' }, false, true],
    ['with TERM=dumb', tty, { TERM: 'dumb' }, false, false],
    ['with --no-color, whatever else', tty, { FORCE_COLOR: '1' }, true, false],
  ])('%s', (_name, stdout, env, isRefused, expected) => {
    expect(hasColour({ stdout, env }, isRefused)).toBe(expected);
  });

  test('changes nothing but colour', () => {
    expect(styleOf(false)('bad', 'EXPIRED')).toBe('EXPIRED');
    expect(styleOf(true)('good', 'HELD')).toBe('\u001B[32mHELD\u001B[39m');
  });
});

describe('a table', () => {
  const columns: readonly Column[] = [
    { title: 'STATE' },
    { title: 'NAME', yields: 'last' },
    { title: 'OWNER', yields: 'first' },
    { title: 'N', align: 'right' },
  ];
  const rows = [
    [{ text: 'HELD' }, { text: 'customer:42-in-full' }, { text: 'web-7f9c pid 4121 since 02:41:07Z' }, { text: '7' }],
    [{ text: 'FREE' }, { text: '日本🎉' }, { text: '-' }, { text: '12' }],
  ];
  const style = styleOf(false);

  test('in a pipe has tabs and everything', () => {
    expect(tabbed(columns, rows, style)).toBe(
      'STATE\tNAME\tOWNER\tN\nHELD\tcustomer:42-in-full\tweb-7f9c pid 4121 since 02:41:07Z\t7\nFREE\t日本🎉\t-\t12\n',
    );
  });

  test('in a pipe has colours if they are forced', () => {
    const text = tabbed(columns, [[{ text: 'HELD', tone: 'good' }]], styleOf(true));
    expect(text).toContain('\u001B[32mHELD\u001B[39m');
  });

  test('on a wide terminal is aligned, wide characters counted as two', async () => {
    expect(await aligned(columns, rows, { width: 100, style })).toBe(
      [
        'STATE  NAME                 OWNER                               N',
        'HELD   customer:42-in-full  web-7f9c pid 4121 since 02:41:07Z   7',
        'FREE   日本🎉               -                                  12',
        '',
      ].join('\n'),
    );
  });

  test('on a narrow one cuts what yields first, then the rest, and never wraps', async () => {
    expect(await aligned(columns, rows, { width: 50, style })).toBe(
      [
        'STATE  NAME                 OWNER                N',
        'HELD   customer:42-in-full  web-7f9c pid 4121…   7',
        'FREE   日本🎉               -                   12',
        '',
      ].join('\n'),
    );
    const narrow = await aligned(columns, rows, { width: 34, style });
    expect(narrow).toContain('HELD   customer:4…  web-7f9c …   7\n');
    const least = await aligned(columns, rows, { width: 22, style, cuts: 'names' });
    expect(least).toContain('HELD   cus…  web-…   7\n');
  });
});
