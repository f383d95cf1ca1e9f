import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';

import { buildCommand, builtCommand } from '../support/built-command.ts';
import type { Benchmark } from './benchmark.ts';
import { interleave, tableOf, type Contestant } from './interleave.ts';

interface Program extends Contestant {
  readonly args: readonly string[];
}

/** As users have it: what was compiled, not the sources. */
const importing = (name: string): readonly string[] => ['--input-type=module', '--eval', `import '${name}'`];

const programs: readonly Program[] = [
  { name: 'floor: node with nothing', kind: 'floor', args: importing('node:process') },
  { name: '@leasehold/core', kind: 'ours', args: importing('@leasehold/core') },
  { name: '@leasehold/core/redis', kind: 'ours', args: importing('@leasehold/core/redis') },
  { name: '@leasehold/bullmq', kind: 'ours', args: importing('@leasehold/bullmq') },
  { name: '@leasehold/cron', kind: 'ours', args: importing('@leasehold/cron') },
  { name: 'leasehold --help', kind: 'ours', args: [builtCommand, '--help'] },
  { name: 'bullmq', kind: 'peer', args: importing('bullmq') },
  { name: 'ioredis', kind: 'peer', args: importing('ioredis') },
  { name: 'node-cron', kind: 'peer', args: importing('node-cron') },
];

export const benchmark: Benchmark = {
  name: 'start-up',
  title: 'Start-up',
  method:
    'A process of its own for each start, from the moment when it is spawned to its end: it imports one package, compiled as users have it, or shows the help of the command. `@leasehold/bullmq` imports `bullmq`, as whoever uses it does anyway.',
  packages: ['bullmq', 'node-cron'],
  async run(context) {
    if (context.size !== 'smoke') await buildCommand(); // for a test it is built
    const some = context.pick({ full: programs, quick: programs, smoke: [programs[1], programs[5]] as Program[] });
    const rounds = context.pick({ full: 20, quick: 4, smoke: 1 });
    const warmUps = context.pick({ full: 2, quick: 1, smoke: 0 });
    const series = await interleave(some, { rounds, warmUps }, async ({ name, args }) => ({
      ms: await startOnce(name, args),
    }));
    return {
      tables: [
        tableOf(series, {
          title: 'from the start of the process to its end',
          unit: 'ms',
          better: 'less',
          figure: 'ms',
        }),
      ],
      targets: [],
    };
  },
};

async function startOnce(name: string, args: readonly string[]): Promise<number> {
  const from = performance.now();
  const child = spawn(process.execPath, args, {
    cwd: fileURLToPath(new URL('..', import.meta.url)),
    env: { ...process.env, NODE_OPTIONS: '' },
    stdio: ['ignore', 'ignore', 'inherit'],
  });
  const [code] = (await once(child, 'exit')) as [number | null];
  if (code !== 0) throw new Error(`${name} ended with ${code}`);
  return performance.now() - from;
}
