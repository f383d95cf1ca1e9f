// Methods of a service on a schedule of their own, and one that another scheduler calls. Start as many processes as you like.
import { setTimeout as sleep } from 'node:timers/promises';
import { Leased, LeasedCron, leasedCron, type CronRun } from '@leasehold/cron';

class Reports {
  readonly #country = 'Norway';
  runs = 0;

  @LeasedCron('* * * * * *', { name: 'sales-report', timezone: 'UTC', lease: { ttl: '5s' } })
  async sales(run: CronRun): Promise<void> {
    console.log(`sales of ${this.#country}, fencing token ${run.fencingToken}`);
    await sleep(50, undefined, { signal: run.signal });
    this.runs++;
  }

  @Leased({ name: 'stock-report', minHold: '1h' })
  async stock(): Promise<void> {
    console.log(`stock of ${this.#country}`);
  }
}

const cron = leasedCron({ connection: process.env.LEASEHOLD_REDIS_URL ?? 'redis://localhost:6379' });
const reports = new Reports();
const [sales] = cron.register(reports);

// Whatever calls it, and how often: one run an hour in all processes.
await Promise.all([reports.stock(), reports.stock(), reports.stock()]);

while (reports.runs < 2) await new Promise((resolve) => sales?.on('execution:finished', resolve));
await cron.shutdown('10s');
console.log('two sales reports, one stock report');
