// One of three copies of the same app: a queue worker and a cron task. Started by main.ts.
import { LeaseManager } from '@leasehold/core';
import { redisStore } from '@leasehold/core/redis';

import { startCron } from './cron.ts';
import { openLedger } from './ledger.ts';
import { TTL_MS, type Order, type Report, type Setting } from './messages.ts';
import { startWorker } from './worker.ts';

const setting = JSON.parse(process.argv[2] ?? '') as Setting;
const waiting = new Map<string, (order: Order & { readonly type: 'go' }) => void>();

// Without its parent it has nothing to do here.
process.once('disconnect', () => process.exit());

/** Resolves when the report is on its way. */
function say(report: Report): Promise<void> {
  return new Promise((resolve) => process.send?.(report, undefined, undefined, () => resolve()));
}

/** Reports, and resolves with the parent's answer. */
async function ask(report: Report & { readonly job: string }): Promise<Order & { readonly type: 'go' }> {
  const answer = new Promise<Order & { readonly type: 'go' }>((resolve) => waiting.set(report.job, resolve));
  await say(report);
  return answer;
}

const { url, prefix, name } = setting;
const leases = new LeaseManager({ store: redisStore(url, { prefix }), ttl: TTL_MS, owner: name });
const ledger = openLedger(setting);
const worker = startWorker({ setting, leases, ledger, say, ask });
const cron = startCron({ leases, ledger, say });

process.on('message', (order: Order) => {
  if (order.type === 'end') void end();
  else waiting.get(order.job)?.(order);
});

async function end(): Promise<void> {
  await Promise.all([worker.close(), cron.shutdown()]);
  await leases.close();
  await ledger.close();
  process.disconnect();
}

await worker.waitUntilReady();
await say({ type: 'ready' });
