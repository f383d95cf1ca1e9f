import { LeaseManager, MemoryLeaseStore } from '@leasehold/core';
import { expect, test } from 'vitest';
import { gatherIncident, type Incident } from '../../src/incident/incident.ts';
import { markdownOf } from '../../src/incident/markdown.ts';

const target = {
  redis: 'redis://h',
  prefix: 'leasehold',
  endpoints: [],
  address: 'redis://h:6379/0',
  origin: 'leasehold.yaml',
};

async function incident(): Promise<Incident> {
  await using leases = new LeaseManager({ store: new MemoryLeaseStore(), history: 'all' });
  await using _lease = await leases.acquire('reports');
  return await gatherIncident(leases, 'reports', target, { probes: [] });
}

/** The parts of a page by their headings. */
function sections(page: string): ReadonlyMap<string, string> {
  const parts = page.split(/^## /m).slice(1);
  return new Map(parts.map((part) => [part.split('\n', 1)[0] ?? '', part]));
}

test('an incident has its parts, in order, with what they hold', async () => {
  const its = await incident();
  const page = markdownOf(its);
  expect(page).toMatch(/^# leasehold\/reports: held\n\nreports is held by /);
  expect([...sections(page).keys()]).toEqual([
    ...['What is missing', 'Evidence', 'Record', 'What the owner measured of itself', 'Fences', 'Servers'],
    ...['Events, the newest first', 'What was allowed', 'By hand'],
  ]);
  const [, record = ''] = [...sections(page)].find(([name]) => name === 'Record') ?? [];
  expect(record).toContain(`| leaseId | ${its.diagnosis.lease?.leaseId} |`);
  expect(sections(page).get('Events, the newest first')).toContain('| acquired |');
  expect(sections(page).get('What is missing')).toContain('| fences | no config that names them was asked |');
  expect(page).toMatch(/\| asked \| redis:\/\/h:6379\/0 · prefix leasehold · leasehold\.yaml \|/);
});

test('what others wrote is text in it: no cell, no line, no link, no markup and no end of a block', async () => {
  const its = await incident();
  const hostile = 'a|b\n## Forged\n<script>x</script> [l](http://e) ![i](e) `c` **b** \\| &lt; \u001B[2J \u202E';
  const page = markdownOf({
    ...its,
    resource: hostile,
    missing: [{ what: hostile, why: hostile }],
    events: (its.events ?? []).map((event) => ({ ...event, owner: hostile, detail: hostile })),
    diagnosis: {
      ...its.diagnosis,
      evidence: its.diagnosis.evidence.map((each) => ({ ...each, value: hostile })),
      byHand: [{ command: 'echo ```\n## Forged\n````', lookFor: hostile }],
    },
  });
  expect([...sections(page).keys()]).toHaveLength(9);
  for (const char of ['\u001B', '\u202E']) expect(page).not.toContain(char);
  const [text = '', block = ''] = page.split('## By hand');
  // A backslash before each character that would be more than itself.
  expect(text.replace(/\\[\\`*_~[\]<>|&#!]/g, '')).not.toMatch(/[<>`&[\]*!]/);
  const widths = [...text.matchAll(/^\|.*\|$/gm)].map(
    ([row]) => row.replaceAll('\\\\', '').replaceAll('\\|', '').split('|').length,
  );
  expect(new Set(widths)).toEqual(new Set([4, 5, 6, 7, 8].filter((width) => widths.includes(width))));
  expect(
    block
      .trim()
      .split('\n')
      .filter((row) => /^`+/.test(row)),
  ).toEqual(['`````sh', '`````']);
});
