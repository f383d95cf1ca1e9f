// node --conditions @leasehold/source --import tsx test/incidents/stage.ts <number> [--judge] [--ttl <seconds>]
//
// Stages one of ten incidents with real servers and real processes, tells what an operator would know, and waits for Ctrl-C.
// With --judge it says then whether what was done about it was right, and ends with 0 or 1.
import { once } from 'node:events';
import { parseArgs } from 'node:util';

import { cleanUp } from '../../scripts/services/guard.mjs';
import { isRight, point } from './incident.ts';
import { Scene } from './scene.ts';
import { incidents } from './table.ts';

/** Time to read what diagnose says before the lease is over. */
const TTL_S = '45';

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { judge: { type: 'boolean', default: false }, ttl: { type: 'string', default: TTL_S } },
});
const incident = incidents.get(Number(positionals[0]));
const ttlMs = Number(values.ttl) * 1000;

if (incident === undefined || !(ttlMs >= 100)) {
  process.stderr.write('usage: stage.ts <1 to 10> [--judge] [--ttl <seconds>]\n');
  process.exitCode = 2;
} else {
  const interrupted = Promise.race([once(process, 'SIGINT'), once(process, 'SIGTERM')]);
  try {
    await using scene = new Scene(ttlMs);
    const { told, flags, judge } = await incident.stage(scene);
    process.stdout.write(
      `${told}\n\nReach the store with: leasehold … ${flags.join(' ')}\n(Ctrl-C when you are done.)\n`,
    );
    // Nothing else may keep this process: a server that an operator has ended, for instance.
    const alive = setInterval(() => {}, 60_000);
    await interrupted;
    clearInterval(alive);
    if (values.judge) {
      const points = await judge().catch((error: unknown) => [
        point(`the state can be read: ${error instanceof Error ? error.message : String(error)}`, false),
      ]);
      for (const { rule, isKept } of points) process.stdout.write(`${isKept ? 'yes' : 'NO '}  ${rule}\n`);
      process.stdout.write(`${isRight(points) ? 'RIGHT' : 'WRONG'}: ${incident.right}\n`);
      process.exitCode = isRight(points) ? 0 : 1;
    }
  } finally {
    await cleanUp();
  }
}
