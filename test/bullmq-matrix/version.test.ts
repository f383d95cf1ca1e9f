import { readFileSync, realpathSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { LeasedWorker } from '@leasehold/bullmq';
import { Worker } from 'bullmq';
import { describe, expect, test } from 'vitest';
import { startChild } from '../support/child.ts';
import { others } from './versions.mjs';
import { pathOf } from './which.ts';

const version = process.env['LEASEHOLD_BULLMQ'];
const installed = version === undefined ? '../node_modules/bullmq' : `node_modules/bullmq-${version}`;
const folder = realpathSync(fileURLToPath(new URL(installed, import.meta.url)));

describe(`with BullMQ ${version ?? 'as it is installed'}`, () => {
  test('it is that version which the tests and the adapter have', () => {
    expect(pathOf(Worker)).toContain(`${folder}/dist/cjs/`);
    expect(LeasedWorker.prototype).toBeInstanceOf(Worker);
    if (version !== undefined) {
      expect(JSON.parse(readFileSync(`${folder}/package.json`, 'utf8'))).toMatchObject({ name: 'bullmq', version });
    }
  });

  test('the processes that tests start have it as well', async () => {
    await using child = startChild(new URL('fixtures/which.ts', import.meta.url));
    const { path, isOurs } = await child.next('bullmq');
    expect(path).toContain(`${folder}/dist/cjs/`);
    expect(isOurs).toBe(true);
  });
});

test('the range that the adapter promises begins with the oldest of them', () => {
  const manifest = new URL('../../packages/bullmq-adapter/package.json', import.meta.url);
  const { peerDependencies } = JSON.parse(readFileSync(manifest, 'utf8')) as { peerDependencies: { bullmq: string } };
  const majors = others.filter((other) => /^\d+\.0\.0$/.test(other));
  expect(peerDependencies.bullmq).toBe([others[0], ...majors].map((oldest) => `^${oldest}`).join(' || '));
});
