// A service behind a fence, and its client under a lease. Whoever comes late is answered 412, and its run is over.
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { LeaseManager, MemoryFence } from '@leasehold/core';
import { fenced, fencedFetch, fenceRoute, httpFence, signer, verifier } from '@leasehold/core/http';
import { redisStore } from '@leasehold/core/redis';

const keys = { 'key-1': process.env.FENCING_KEY ?? 'only for this example: 32 bytes or more' };

// The service. The grant of a request goes to the fence that the data is written through.
const stock = new MemoryFence({ name: 'stock' });
const verify = verifier({ keys });
const fence = fenceRoute(stock, { verify });
// The route names the resource: POST /pears is for `example/pears`.
const resource = (request: Request): string => `example${new URL(request.url).pathname}`;
const take = fenced({ resource, verify }, async (_request, grant) => {
  const left = await stock.write(grant, (tx) => {
    tx.set(grant.resource, ((tx.get(grant.resource) as number | undefined) ?? 10) - 1);
    return tx.get(grant.resource);
  });
  return new Response(`${String(left)} pears left`);
});

// Hono, Bun and Deno serve such functions as they are; Node needs a few lines.
async function serve(req: IncomingMessage, res: ServerResponse): Promise<void> {
  const headers = req.headers as Record<string, string>;
  const request = new Request(`http://${req.headers.host}${req.url}`, { method: req.method ?? 'GET', headers });
  const response = await (req.url === '/fence' ? fence(request) : take(request));
  res.writeHead(response.status, Object.fromEntries(response.headers)).end(await response.text());
}
const server = createServer((req, res) => void serve(req, res)).listen(0, '127.0.0.1');
await once(server, 'listening');
const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;

// The client. `fences: [shop]` shuts out every earlier owner before the body reads anything.
const sign = signer({ keys, current: 'key-1' });
const shop = httpFence({ url: `${url}/fence`, name: 'shop', sign });
const store = redisStore(process.env.LEASEHOLD_REDIS_URL ?? 'redis://localhost:6379', { prefix: 'example' });
await using leases = new LeaseManager({ store });
const takeOne = () =>
  leases.run('pears', { fences: [shop] }, async (lease) => {
    const response = await shop.write(lease, (send) => send('/pears', { method: 'POST' }));
    console.log(await response.text());
    return lease.grant;
  });
const early = await takeOne();
await takeOne();

// A request of the first run that comes now, from a process that stood still for a while.
const late = fencedFetch(early, { sign })(`${url}/pears`, { method: 'POST' });
await late.catch((error: unknown) => console.log(String(error)));
console.log(`${String(stock.values.get('example/pears'))} pears left still`);
server.close();
server.closeAllConnections();
