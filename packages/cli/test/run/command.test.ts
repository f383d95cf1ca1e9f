import { writeFileSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { afterAll, beforeAll, expect, test } from 'vitest';

import { call } from '../commands/call.ts';

const CONFIG = `version: 1
store: { redis: 'redis://127.0.0.1:1' }
jobs:
  report: { cron: '0 3 * * *', handler: './jobs.mjs#report' }
  poll: { every: 1m, handler: './jobs.mjs#poll' }
  payments: { queue: payments, handler: './jobs.mjs#report', lease: { resource: 'customer:{data.id}' } }
`;

let folder = '';
let file = '';

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'leasehold-run-'));
  file = join(folder, 'leasehold.yaml');
  writeFileSync(file, CONFIG);
  writeFileSync(join(folder, 'jobs.mjs'), 'export function report() {}\nexport function poll() {}\n');
});

afterAll(() => rmSync(folder, { recursive: true }));

test('leasehold run --dry-run shows what would run', async () => {
  const { code, stdout } = await call(['run', file, '--dry-run', '--only', 'report, payments']);
  expect(code).toBe(0);
  expect(stdout).toBe(
    [
      'JOB\tWHEN\tRESOURCE\tHANDLER',
      'report\t0 3 * * * UTC\treport\t./jobs.mjs#report',
      'payments\tqueue payments\tcustomer:{data.id}\t./jobs.mjs#report',
      '',
    ].join('\n'),
  );
});

test('leasehold run says all that is wrong, each with its place, and exits with 2', async () => {
  const broken = join(folder, 'broken.yaml');
  writeFileSync(broken, CONFIG.replace('#poll', '#pol').replace('#report', '#reprot'));
  const { code, stdout, stderr } = await call(['run', broken]);
  expect(code).toBe(2);
  expect(stdout).toBe('');
  expect(stderr.split('\n')).toEqual([
    expect.stringMatching(
      /^error: .*broken\.yaml:4:41 jobs\.report\.handler: .* does not export 'reprot'; did you mean #report\?$/,
    ),
    expect.stringMatching(
      /^error: .*broken\.yaml:5:31 jobs\.poll\.handler: .* does not export 'pol'; did you mean #poll\?$/,
    ),
    'leasehold: 2 problems; nothing runs',
    `Try: leasehold validate ${broken}`,
    '',
  ]);
});

test('leasehold run --only with the name of no job says which there are', async () => {
  const { code, stderr } = await call(['run', file, '--only', 'reports']);
  expect(code).toBe(2);
  expect(stderr).toContain("jobs: has no job 'reports'; there are report, poll, payments");
});
