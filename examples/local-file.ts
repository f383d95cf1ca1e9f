// A file on this host that other programs may read at any time. Whoever comes late does not get to write it.
import { LeaseManager, type Grant } from '@leasehold/core';
import { fileFence, fileName } from '@leasehold/core/conditional';
import { redisStore } from '@leasehold/core/redis';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const folder = await mkdtemp(join(tmpdir(), 'leasehold-example-'));
// The folder must exist. Beside the file a fence keeps `<path>.fence`: never remove that one.
const path = (resource: string): string => join(folder, `${fileName(resource)}.csv`);
const files = fileFence({ path });
const url = process.env.LEASEHOLD_REDIS_URL ?? 'redis://localhost:6379';
const leases = new LeaseManager({ store: redisStore(url, { prefix: 'office' }) });

const report = (line: string): Promise<Grant> =>
  leases.run('report', { fences: [files], wait: '10s' }, async (lease) => {
    // The body runs again if another write of this lease was faster: it does nothing but read and write through tx.
    await files.write(lease, async (tx) => tx.write(`${(await tx.read())?.toString() ?? ''}${line}\n`));
    return lease.grant;
  });

const early = await report('monday,7');
await report('tuesday,9');
// The first run again, as if it had been paused in the middle and woke up only now.
await files
  .write(early, (tx) => tx.write('nothing but monday\n'))
  .catch((error: unknown) => console.log(String(error)));
console.log((await readFile(path('office/report'), 'utf8')).trim());

await leases.close();
await rm(folder, { recursive: true });
