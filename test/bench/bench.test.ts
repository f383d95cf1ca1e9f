import { describe, expect, inject, test } from 'vitest';

import { createDatabase } from '../support/postgres.ts';
import { benchmarksNamed, names } from './catalog.ts';
import { picture } from './picture.ts';
import { play } from './play.ts';
import { plain } from './show.ts';

/** Of what `npm run bench` does, so much that it cannot rot unseen. Its figures are worth nothing, and none is looked at. */
describe.concurrent('for a moment', { timeout: 120_000 }, () => {
  test.each(names)('%s measures everything that its tables name', async (name) => {
    const [benchmark] = await benchmarksNamed([name]);
    await using database = await createDatabase(inject('postgresUrl'));
    const { url } = database;
    const report = await play(benchmark!, { size: 'smoke', database: { url, port: Number(new URL(url).port) } });
    expect(report.name).toBe(name);
    expect(report.tables.length).toBeGreaterThan(0);
    for (const { rows } of report.tables) expect(rows.length).toBeGreaterThan(0);
    const medians = report.tables.flatMap(({ rows }) => rows.map(({ value }) => value.median));
    expect(medians.filter(Number.isFinite)).not.toEqual([]);
    expect(picture(report)).toContain(benchmark!.title);
    expect(plain(report)).toContain(benchmark!.title);
  });
});
