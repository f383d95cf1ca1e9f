// A value in object storage. Whoever comes late finds another ETag than it expects, and is told why.
import { LeaseManager, type Grant } from '@leasehold/core';
import { fileName, objectFence } from '@leasehold/core/conditional';
import { redisStore } from '@leasehold/core/redis';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';

interface Stock {
  readonly pears: number;
}

const bucket = process.env.BUCKET_URL ?? (await standIn());
const stock = objectFence<Stock>({
  url: (resource) => `${bucket}/${fileName(resource)}`,
  // A real bucket wants signed requests: fetch: (url, init) => new AwsClient({ … }).fetch(url, init), of aws4fetch.
});
const redis = process.env.LEASEHOLD_REDIS_URL ?? 'redis://localhost:6379';
const leases = new LeaseManager({ store: redisStore(redis, { prefix: 'shop' }) });

const sell = (): Promise<Grant> =>
  leases.run('stock', { fences: [stock], wait: '10s' }, async (lease) => {
    // The body runs again if another write of this lease was faster: all that it does is to make a value of a value.
    await stock.write(lease, (tx) => tx.set({ pears: (tx.value?.pears ?? 10) - 1 }));
    return lease.grant;
  });

const early = await sell();
await sell();
// The first run again, as if it had been paused in the middle and woke up only now.
await stock.write(early, (tx) => tx.set({ pears: 9 })).catch((error: unknown) => console.log(String(error)));
const object = (await (await fetch(`${bucket}/${fileName('shop/stock')}`)).json()) as { value: Stock };
console.log(`${object.value.pears} pears left`);

await leases.close();

/** As much of S3 as is needed here. */
async function standIn(): Promise<string> {
  const objects = new Map<string, string>();
  const serve = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const [key = '', body] = [request.url, await text(request)];
    const now = objects.get(key);
    const etag = `"${createHash('md5')
      .update(now ?? '')
      .digest('hex')}"`;
    const { 'if-match': match, 'if-none-match': none } = request.headers;
    const isMet = none === '*' ? now === undefined : match === etag;
    if (request.method === 'PUT' && isMet) objects.set(key, body);
    const status = request.method === 'PUT' ? (isMet ? 200 : 412) : now === undefined ? 404 : 200;
    response.writeHead(status, { etag }).end(request.method === 'PUT' ? '' : now);
  };
  const server = createServer((request, response) => void serve(request, response)).listen(0, '127.0.0.1');
  server.on('connection', (socket) => socket.unref()).unref();
  await once(server, 'listening');
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}
