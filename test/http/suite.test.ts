import { grantOf, MemoryFence, type Fence, type Grant, type Holding, type MemoryTx } from '@leasehold/core';
import { fenced, fencingHeaders, fenceRoute, httpFence, type HttpFence } from '@leasehold/core/http';
import { describeFence, fenceCases, type FenceSubject } from '@leasehold/core/testing';
import { expect, test } from 'vitest';

import { listen } from './services.ts';

/** A service with a log for each resource, all of whose entries come in one request. */
async function startLogs(): Promise<{
  url: string;
  ledger: MemoryFence;
  hung: Promise<void>;
  close: () => Promise<void>;
}> {
  const ledger = new MemoryFence();
  const route = fenceRoute(ledger, { allowSeal: () => true });
  const resource = (request: Request): string => decodeURIComponent(new URL(request.url).pathname.split('/')[2] ?? '');
  const append = (tx: MemoryTx, name: string, entries: readonly string[]): void =>
    tx.set(name, [...((tx.get(name) ?? []) as string[]), ...entries]);
  const enter = fenced({ resource }, async (request, grant) => {
    const entries = (await request.json()) as readonly string[];
    await ledger.write(grant, (tx) => append(tx, grant.resource, entries));
    return new Response(null, { status: 204 });
  });
  let hang = (): void => {};
  const hung = new Promise<void>((resolve) => (hang = resolve));
  const die = fenced({ resource }, async (request, grant) => {
    const entries = (await request.json()) as readonly string[];
    return ledger.write(grant, (tx) => {
      append(tx, grant.resource, entries);
      hang();
      return new Promise<Response>(() => {});
    });
  });
  const { url, close } = await listen((request) => {
    const { pathname } = new URL(request.url);
    if (pathname === '/fence') return route(request);
    return pathname.endsWith('/hang') ? die(request) : enter(request);
  });
  return { url, ledger, hung, close };
}

/** A write that is one step: what its body has gathered goes out in a single request, at its end. */
class OneRequest implements Fence<string[]> {
  readonly name: string;
  readonly http: HttpFence;

  constructor(http: HttpFence) {
    this.name = http.name;
    this.http = http;
  }

  get enforcing(): boolean {
    return this.http.enforcing;
  }

  activate(grant: Grant | Holding): Promise<void> {
    return this.http.activate(grant);
  }

  async write<T>(grant: Grant | Holding, body: (entries: string[]) => T | Promise<T>): Promise<T> {
    return this.http.write(grant, async (send) => {
      const entries: string[] = [];
      const value = await body(entries);
      const path = `/logs/${encodeURIComponent(grantOf(grant).resource)}/entries`;
      const response = await send(path, { method: 'POST', body: JSON.stringify(entries) });
      expect(response.status).toBe(204);
      return value;
    });
  }

  seal(resource: string, fencingToken: number): Promise<void> {
    return this.http.seal(resource, fencingToken);
  }

  highest(resource: string): ReturnType<Fence['highest']> {
    return this.http.highest(resource);
  }
}

/** A line that breaks when it is told to. */
class Line {
  trouble: 'before' | 'after' | undefined;

  readonly fetch: typeof fetch = async (...args) => {
    const { trouble } = this;
    this.trouble = undefined;
    if (trouble === 'before') throw new TypeError('the line broke');
    const response = await fetch(...args);
    if (trouble === undefined) return response;
    await response.body?.cancel();
    throw new TypeError('the line broke');
  };
}

async function subject(): Promise<FenceSubject<string[]>> {
  const logs = await startLogs();
  const line = new Line();
  const newFence = (send: typeof fetch): OneRequest =>
    new OneRequest(httpFence({ url: `${logs.url}/fence`, fetch: send }));
  return {
    fence: newFence(line.fetch),
    nowUs: () => Date.now() * 1000,
    append: (entries, _resource, entry) => entries.push(entry),
    entries: async (resource) => (logs.ledger.values.get(resource) ?? []) as readonly string[],
    // Over a line of its own, which never breaks.
    second: async () => newFence(fetch),
    loseAnswer: async () => void (line.trouble = 'after'),
    loseRequest: async () => void (line.trouble = 'before'),
    outcomeUnknown: true,
    async abandon(grant, entry) {
      const url = `${logs.url}/logs/${encodeURIComponent(grant.resource)}/hang`;
      const request = fetch(url, { method: 'POST', headers: fencingHeaders(grant), body: JSON.stringify([entry]) });
      // It ends with the service.
      request.catch(() => {});
      await logs.hung;
    },
    close: logs.close,
  };
}

const { leftOut } = describeFence('a service over HTTP', subject, ['second', 'loseAnswer', 'loseRequest', 'abandon']);

test('the only case that a service has no means for is the one that reads inside a write', () => {
  expect(fenceCases.filter(({ name }) => leftOut.includes(name)).map(({ needs }) => needs)).toEqual([['count']]);
});
