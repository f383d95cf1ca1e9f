// What `leasehold run` does, in a program of your own: the same file, some of its jobs, a handler of your own.
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { loadConfig, runConfig, type JobContext } from 'leasehold';

const config = await loadConfig(fileURLToPath(new URL('config/leasehold.yaml', import.meta.url)));

let runs = 0;
const running = await runConfig(config, {
  only: ['heartbeat'],
  handlers: {
    // Instead of the file that the config names.
    heartbeat: ({ run, lease }: JobContext) => {
      runs++;
      console.log(`tick ${run.tick?.toISOString()}, fencing token ${lease.fencingToken}`);
    },
  },
});

await running.ready;
console.log('the store has answered');
while (runs < 2) await sleep(100);

// No more ticks; runs may finish within shutdown.grace; leases are given back.
const { unsettled } = await running.close();
console.log(`two ticks have run, ${unsettled} runs were left behind`);
