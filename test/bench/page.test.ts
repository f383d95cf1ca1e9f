import { existsSync, readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';

import { isScale, names } from './catalog.ts';
import { keptReports, pagePath, picturePath, renewed } from './page.ts';
import { picture } from './picture.ts';
import { scaled, scalingPath } from './scaling-page.ts';

const page = readFileSync(pagePath, 'utf8');
const reports = keptReports();

test('every benchmark was kept', () => {
  expect(reports.map(({ name }) => name)).toEqual(names);
});

describe('the page on performance', () => {
  test('says what was kept, and nothing else', () => {
    expect(renewed(page, reports)).toBe(page);
  });

  test('has a heading for each, as its link in the table of targets says', () => {
    const headings = [...page.matchAll(/^## (.+)$/gm)].map(([, heading]) => heading);
    const its = reports.filter(({ name }) => !isScale(name));
    expect(headings).toEqual(expect.arrayContaining(its.map(({ title }) => title)));
  });
});

describe('the page on size', () => {
  const its = readFileSync(scalingPath, 'utf8');

  test('says what was kept, and counts with that', () => {
    expect(scaled(its, reports)).toBe(its);
  });

  test('has a heading for each', () => {
    const headings = [...its.matchAll(/^## (.+)$/gm)].map(([, heading]) => heading);
    const titles = reports.filter(({ name }) => isScale(name)).map(({ title }) => title);
    expect(titles.length).toBe(4);
    expect(headings).toEqual(expect.arrayContaining(titles));
  });

  test('shows no constant that was not measured', () => {
    expect(its).not.toMatch(/NaN|undefined|Not measured yet/);
  });

  test('counts with few leases a command where they were measured, and with nothing held', () => {
    const split = { redisIdleUs: 1200, fewRedisUsPerExtension: 12, fewPerSecond: 500, fewLeasesPerCommand: 5 };
    const other = reports.map((report) =>
      report.name === 'scale-leases' ? { ...report, constants: { ...report.constants, ...split } } : report,
    );
    const page = scaled(its, other);
    expect(page).toContain('| i | Redis CPU a second with nothing held | 1,200 µs |');
    expect(page).toMatch(/\| g \| .*; from commands of 5\.00 \| [\d.]+ µs \|/);
    expect(page).not.toMatch(/NaN|undefined|–/);
  });

  test('a figure that is changed in what was kept is another page', () => {
    const other = reports.map((report) =>
      report.name === 'scale-leases'
        ? { ...report, constants: { ...report.constants, redisUsPerExtension: 99 } }
        : report,
    );
    expect(scaled(its, other)).not.toBe(its);
  });
});

test.each(names)('shows the picture that belongs to %s', (name) => {
  expect(existsSync(picturePath(name))).toBe(true);
  const report = reports.find((each) => each.name === name);
  expect(readFileSync(picturePath(name), 'utf8')).toBe(picture(report!));
});

test('a part without a place, and a place that no benchmark has, are refused', () => {
  const [first] = reports;
  expect(() => renewed('<!-- bench: targets -->\n<!-- end -->\n', [first!])).toThrow(`no place for ${first!.name}`);
  expect(() => renewed('<!-- bench: other -->\n<!-- end -->\n', [])).toThrow('a place for other, which is none');
});
