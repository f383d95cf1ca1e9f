import type { Job } from 'bullmq';

type FromId = typeof Job.fromId;

/**
 * The job as its queue has it now, undefined if it is gone. By the class of the job itself, because there may be two copies
 * of BullMQ, and over the connection of the worker that got it.
 */
export async function storedOf(job: Job): Promise<Job | undefined> {
  const { fromId } = job.constructor as unknown as { readonly fromId: FromId };
  const { queue } = job as unknown as { readonly queue: Parameters<FromId>[0] };
  return fromId.call(job.constructor, queue, job.id ?? '');
}
