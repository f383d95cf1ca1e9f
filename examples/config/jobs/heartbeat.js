import { defineJob } from 'leasehold';

export const heartbeat = defineJob(({ run, log }) => {
  log.info({ tick: run.tick }, 'tick');
});
