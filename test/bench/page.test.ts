import { existsSync, readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';

import { names } from './catalog.ts';
import { keptReports, pagePath, picturePath, renewed } from './page.ts';
import { picture } from './picture.ts';

const page = readFileSync(pagePath, 'utf8');
const reports = keptReports();

describe('the page on performance', () => {
  test('has every benchmark', () => {
    expect(reports.map(({ name }) => name)).toEqual(names);
  });

  test('says what was kept, and nothing else', () => {
    expect(renewed(page, reports)).toBe(page);
  });

  test('has a heading for each, as its link in the table of targets says', () => {
    const headings = [...page.matchAll(/^## (.+)$/gm)].map(([, heading]) => heading);
    expect(headings).toEqual(expect.arrayContaining(reports.map(({ title }) => title)));
  });

  test.each(names)('shows the picture that belongs to %s', (name) => {
    expect(existsSync(picturePath(name))).toBe(true);
    const report = reports.find((each) => each.name === name);
    expect(readFileSync(picturePath(name), 'utf8')).toBe(picture(report!));
  });
});

test('a part without a place, and a place that no benchmark has, are refused', () => {
  const [first] = reports;
  expect(() => renewed('<!-- bench: targets -->\n<!-- end -->\n', [first!])).toThrow(`no place for ${first!.name}`);
  expect(() => renewed('<!-- bench: other -->\n<!-- end -->\n', [])).toThrow('a place for other, which is none');
});
