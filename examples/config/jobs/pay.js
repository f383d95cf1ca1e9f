import { defineJob } from 'leasehold';

export const charge = defineJob(async ({ job, lease, fences, log }) => {
  const { customerId, amount } = job.data;
  // The qualified name in braces: on a Redis Cluster the data must be in the slot of its fence.
  const key = `{${lease.grant.resource}}:payments`;
  // BullMQ delivers at least once. A job that comes again writes the same entry again.
  await fences.ledger.write(lease, (tx) => tx.call('HSET', key, job.id, amount));
  log.info({ customerId, amount }, 'charged');
});
