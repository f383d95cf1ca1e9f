import { expect, test } from 'vitest';

import { TcpProxy } from '../support/proxy.ts';
import { connectRedis, uniqueName } from '../support/redis-client.ts';
import { startRedis } from '../support/redis-server.ts';
import { clients, storeOn } from './clients.ts';
import { call } from './requests.ts';

test.each(clients)('%s: an address that leads elsewhere by now shows both masters', async (_, connect) => {
  await using former = await startRedis();
  await using present = await startRedis();
  await using address = await TcpProxy.start(former);
  const listed = `127.0.0.1:${address.port}`;
  for (const endpoints of [[], [listed]]) {
    address.leadTo(former.port);
    const store = storeOn(connect(address.redisUrl), { endpoints });
    await store.connect();
    const before = await store.evidence(uniqueName(), null, call);
    expect(before.servers.map(({ role }) => role)).toEqual([{ known: true, value: 'master' }]);
    address.leadTo(present.port);
    const { servers } = await store.evidence(uniqueName(), null, call);
    expect(servers.map(({ role }) => role)).toEqual([
      { known: true, value: 'master' },
      { known: true, value: 'master' },
    ]);
    expect(servers[0]?.runId).toEqual(before.servers[0]?.runId);
    expect(servers[1]?.runId).not.toEqual(before.servers[0]?.runId);
    await store.close();
  }
});

test.each(clients)(
  '%s: an address that leads nowhere by now hides nothing of the server before',
  async (_, connect) => {
    await using server = await startRedis();
    await using address = await TcpProxy.start(server);
    const store = storeOn(connect(address.redisUrl));
    await store.connect();
    address.refuse();
    const { servers, shape } = await store.evidence(uniqueName(), null, call);
    expect(servers).toMatchObject([{ role: { known: true, value: 'master' } }]);
    expect(shape).toEqual({ known: true, value: { kind: 'absent' } });
  },
);

test.each(clients)('%s: a server that may not say which it is counts once', async (_, connect) => {
  await using server = await startRedis();
  await using raw = await connectRedis(server.url);
  await raw.call('ACL', 'SETUSER', 'blind', 'on', '>secret', '~*', '&*', '+@all', '-info');
  const store = storeOn(connect(`redis://blind:secret@localhost:${server.port}`));
  const { servers } = await store.evidence(uniqueName(), null, call);
  expect(servers.map(({ role }) => role)).toEqual([{ known: true, value: 'master' }]);
});
