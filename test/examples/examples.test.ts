import { readdirSync, readFileSync } from 'node:fs';
import { expect, inject, test } from 'vitest';

import { startChild } from '../support/child.ts';
import { createDatabase } from '../support/postgres.ts';

const folder = new URL('../../examples/', import.meta.url);

/** What each example prints. */
const examples: Readonly<Record<string, readonly (string | RegExp)[]>> = {
  'run.ts': [/^9 pears left, says owner \d{16}$/m],
  'bullmq-worker.ts': ['payment 2 of customer 1', 'payment 2 of customer 2', 'all paid'],
  'bullmq-one-worker.ts': [
    /^the first worker is elected, token \d{16}\nimport 1 by the first worker\nthe first worker steps down\nthe second worker is elected, token \d{16}\nimport 2 by the second worker\n/m,
  ],
  'cron-task.ts': [/^tick \S+\.000Z, fencing token \d{16}\ntick \S+\.000Z, fencing token \d{16}\ntwo ticks have run$/m],
  'cron-file-task.ts': [
    /^tick \S+\.000Z, fencing token \d{16}\ntick \S+\.000Z, fencing token \d{16}\ntwo ticks have run$/m,
  ],
  'cron-coordinator.ts': [
    'LeaseholdWarning: leaseCoordinator() elects and nothing more',
    /^tick \S+\.000Z\n[^]*tick \S+\.000Z\ntwo ticks have run$/m,
  ],
  'cron-decorators.ts': [
    /^stock of Norway$/m,
    /^sales of Norway, fencing token \d{16}\nsales of Norway, fencing token \d{16}\ntwo sales reports, one stock report$/m,
  ],
  'postgres.ts': [
    /^balance 100\nbalance 120\nStaleTokenError: STALE_TOKEN bank\/account:42: fence ledger refused/m,
    'LH002 error: leasehold: UPDATE of a row of public.accounts without a guard of bank/account:42',
  ],
  'redis-script.ts': [
    /^7 sold, 3 left\n3 sold, 0 left\nStaleTokenError: STALE_TOKEN orchard\/apples: fence stock refused/m,
  ],
  'try-run.ts': ['skipped: held, by elsewhere\nsent to 1000 readers'],
  'own-fence.ts': ['STALE_TOKEN example/bridge: fence log book refused', '\nfirst watch, second watch\n'],
  'http-service.ts': [
    /^9 pears left\n8 pears left\nStaleTokenError: STALE_TOKEN example\/pears: .* nothing was written: stop this run\n8 pears left still$/m,
  ],
  'object-storage.ts': [/^StaleTokenError: STALE_TOKEN shop\/stock: fence object refused \d{16}, .*\n8 pears left$/m],
  'local-file.ts': [/^StaleTokenError: STALE_TOKEN office\/report: fence file refused .*\nmonday,7\ntuesday,9$/m],
  'run-config.ts': [
    /^the store has answered$/m,
    /^tick \S+\.000Z, fencing token \d{16}$[^]*^tick \S+\.000Z, fencing token \d{16}$[^]*^two ticks have run, 0 runs were left behind$/m,
  ],
  'await-using.ts': ['held: true', 'sends 2026-001\nsends 2026-002\nafter the block: free'],
};

test.each(Object.entries(examples))('%s does what it says', async (file, printed) => {
  // A database of their own: other tests use the same names.
  await using database = await createDatabase(inject('postgresUrl'));
  const env = {
    LEASEHOLD_REDIS_URL: `${inject('redisUrl')}/9`,
    LEASEHOLD_POSTGRES_URL: database.url,
    LISTEN: '127.0.0.1:0',
  };
  // The first two name files of their own, which import the packages by name; vite leaves the decorators of the third as they are.
  const fromSource = ['cron-file-task.ts', 'run-config.ts', 'cron-decorators.ts'].includes(file);
  await using child = startChild(new URL(file, folder), { env, fromSource });
  const exit = await child.exit;
  for (const line of printed) expect(child.output).toMatch(line);
  expect(exit).toEqual({ code: 0, signal: null });
});

test('each example is run here, and short', () => {
  const files = readdirSync(folder).filter((file) => file.endsWith('.ts'));
  expect(files.toSorted()).toEqual(Object.keys(examples).toSorted());
  for (const file of files) expect(readFileSync(new URL(file, folder), 'utf8').split('\n').length).toBeLessThan(60);
});
