import { installSchema, postgresFence, schemaStatus } from '@leasehold/core/postgres';
import { expect, test } from 'vitest';

import { callCli } from '../e2e/fixtures/cli-process.ts';
import { startStandby } from '../support/postgres-standby.ts';
import { connectPool, connectPostgresJs, grantFor } from './support.ts';

test('a hot standby tells its fence and what it is; whoever wants to write there is sent to the primary', async () => {
  const grant = grantFor('shop/reports');
  await using standby = await startStandby(async (url) => {
    await using primary = connectPool(url);
    await installSchema(primary);
    await postgresFence(primary).activate(grant);
  });
  await using pool = connectPool(standby.url);
  await using sql = connectPostgresJs(standby.url);
  for (const client of [pool, sql]) {
    expect(await schemaStatus(client)).toMatchObject({
      ...{ state: 'current', isStandby: true, rows: 1, bypasses: 0 },
      highest: [{ resource: grant.resource, fencingToken: grant.fencingToken, leaseId: grant.leaseId }],
    });
  }
  expect(await schemaStatus(pool, { schema: 'elsewhere' })).toMatchObject({ state: 'missing', isStandby: true });

  const status = await callCli(['fence', 'status', '-d', standby.url]);
  expect(status).toMatchObject({ code: 0, stdout: expect.stringMatching(/^server\s+STANDBY: .*primary/m) });
  expect(status.stdout).toContain(grant.resource);
  const install = await callCli(['fence', 'install', '-d', standby.url, '--schema', 'other', '--yes']);
  expect(install).toMatchObject({ code: 3, stderr: expect.stringContaining('is a standby') });

  // It cannot admit, and it cannot vouch for the highest either: another may be on its way from the primary.
  const fence = postgresFence(pool);
  await expect(fence.activate({ ...grant, fencingToken: grant.fencingToken + 1 })).rejects.toMatchObject({
    code: 'FENCE_UNAVAILABLE',
  });
  await expect(fence.highest(grant.resource)).rejects.toMatchObject({ code: 'FENCE_UNAVAILABLE' });
});
