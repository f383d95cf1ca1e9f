import { LeaseManager, MemoryLeaseStore } from '@leasehold/core';
import { expect, test, vi } from 'vitest';

import { Health } from '../../src/run/health.ts';
import { Metrics } from '../../src/run/metrics.ts';
import { StatusServer } from '../../src/run/server.ts';
import { recordingLog } from './support/log.ts';

test('/readyz answers what is known while a store gives no answer, and does not wait for it as long as calls do', async () => {
  await using manager = new LeaseManager({ store: new MemoryLeaseStore() });
  const { log } = recordingLog();
  // As where nobody answers a connection.
  vi.spyOn(manager, 'inspect').mockReturnValue(new Promise(() => {}));
  const health = new Health(manager, 10_000, log, new Metrics());
  health.open();
  const server = new StatusServer(health, new Metrics(), log);
  await server.listen({ host: '127.0.0.1', port: 0 });
  try {
    const response = await fetch(`http://127.0.0.1:${server.port}/readyz`, { signal: AbortSignal.timeout(4000) });
    expect(response.status).toBe(503);
    expect(await response.json()).toEqual({
      status: 'degraded',
      storeAnsweredMsAgo: null,
      error: 'the store has not answered',
    });
  } finally {
    await server.close();
  }
});
