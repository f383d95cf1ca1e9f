// A background task of node-cron under a lease: plain node-cron, without `distributed`. Start this in as many processes as
// you like, each tick runs in one of them.
import nodeCron from 'node-cron';

// A URL: node-cron looks for relative paths beside itself where source maps are on.
const file = new URL('./background/report.ts', import.meta.url).href;
const task = nodeCron.createTask('* * * * * *', file, { name: 'report', timezone: 'UTC' });

const twice = new Promise<void>((resolve) => {
  let runs = 0;
  task.on('execution:finished', ({ execution }) => {
    // Undefined: the tick has run elsewhere.
    if (execution?.result === undefined) return;
    console.log(execution.result);
    if (++runs === 2) resolve();
  });
});
task.on('execution:failed', ({ execution }) => console.error(execution?.error?.message));

await task.start();
await twice;
await task.stop();
console.log('two ticks have run');
