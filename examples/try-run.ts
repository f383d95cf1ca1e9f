// For work that somebody else may be doing already: then it is skipped, without an error.
import { LeaseManager } from '@leasehold/core';
import { redisStore } from '@leasehold/core/redis';

const url = process.env.LEASEHOLD_REDIS_URL ?? 'redis://localhost:6379';
const [here, elsewhere] = [manager('here'), manager('elsewhere')];

function manager(owner: string): LeaseManager {
  return new LeaseManager({ store: redisStore(url, { prefix: 'example' }), owner });
}

async function sendNewsletter(): Promise<void> {
  const result = await here.tryRun('newsletter', async (lease) => {
    lease.assertHeld();
    return 1000;
  });
  if (result.ran) console.log(`sent to ${result.value} readers`);
  else console.log(`skipped: ${result.reason}, by ${result.holder?.owner.split(' ')[0]}`);
}

const lease = await elsewhere.acquire('newsletter');
await sendNewsletter();
await lease.release();
await sendNewsletter();

await here.close();
await elsewhere.close();
