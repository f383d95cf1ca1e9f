import { execFile } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { LeaseManager, MemoryLeaseStore } from '@leasehold/core';
import { collectLeaseMetrics } from '@leasehold/core/prometheus';
import { Registry } from 'prom-client';
import { describe, expect, test } from 'vitest';

import { environmentOf, find } from '../../scripts/services/binaries.mjs';
import { guardedFolder, removeFolder } from '../../scripts/services/guard.mjs';
import { thisMachine } from '../../scripts/services/machine.mjs';
import { testNeeding } from '../support/needing.ts';

const rules = fileURLToPath(new URL('../../packages/core/alerts/leasehold.yml', import.meta.url));
const dashboard = fileURLToPath(new URL('../../packages/core/dashboards/leasehold.json', import.meta.url));
const cases = fileURLToPath(new URL('./leasehold.test.yml', import.meta.url));

async function promtool(...args: readonly string[]): Promise<string> {
  const path = find('promtool', thisMachine).path ?? '';
  const { stdout, stderr } = await promisify(execFile)(path, args, { env: environmentOf(path) });
  return stdout + stderr;
}

describe('the alert rules', () => {
  testNeeding('promtool', 'are rules of Prometheus, and fire on what they are for and on nothing else', async () => {
    expect(await promtool('check', 'rules', rules)).toContain('SUCCESS');
    const dir = guardedFolder('promtool');
    try {
      const file = join(dir, 'cases.yml');
      writeFileSync(file, readFileSync(cases, 'utf8').replace('RULES', rules));
      expect(await promtool('test', 'rules', file)).toContain('SUCCESS');
      // A check that could not fail would be none.
      writeFileSync(file, readFileSync(cases, 'utf8').replace('RULES', rules).replace("'0.2 0.9 1.3", "'0.2 0.9 1.2"));
      await expect(promtool('test', 'rules', file)).rejects.toThrow(/FAILED/);
    } finally {
      removeFolder(dir);
    }
  });

  test('every alert has a case', () => {
    const alerts = [...readFileSync(rules, 'utf8').matchAll(/alert: (\w+)/g)].map(([, name]) => name);
    const tested = new Set([...readFileSync(cases, 'utf8').matchAll(/alertname: (\w+)/g)].map(([, name]) => name));
    expect(alerts.length).toBeGreaterThanOrEqual(7);
    expect(alerts.filter((name) => !tested.has(name))).toEqual([]);
  });

  test('rules and dashboard ask only for metrics that there are', async () => {
    const register = new Registry();
    const manager = new LeaseManager({ store: new MemoryLeaseStore() });
    const end = collectLeaseMetrics(manager, { register });
    const there = new Set((await register.getMetricsAsJSON()).map(({ name }) => name));
    end();
    await manager.close();
    for (const file of [rules, dashboard]) {
      const asked = [...readFileSync(file, 'utf8').matchAll(/\bleasehold_[a-z_]+/g)].map(([name]) => name);
      expect(asked.length).toBeGreaterThan(5);
      expect(asked.filter((name) => !there.has(name.replace(/_(bucket|sum|count)$/, '')))).toEqual([]);
    }
  });
});
