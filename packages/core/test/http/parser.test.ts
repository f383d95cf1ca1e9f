import { describe, expect, test } from 'vitest';

import { ConfigError, FencingHeaderError } from '../../src/errors.ts';
import type { Grant } from '../../src/fence/fence.ts';
import { MemoryFence } from '../../src/fence/memory.ts';
import {
  expressFencing,
  fastifyFencing,
  fenced,
  fenceRoute,
  fencingHeaders,
  parseFencing,
  type HeadersLike,
} from '../../src/http/index.ts';
import { grant } from './held.ts';

const { resource } = grant;
const headers = fencingHeaders(grant);

function refusalOf(given: HeadersLike, options: Parameters<typeof parseFencing>[1] = { resource }): unknown {
  try {
    return parseFencing(given, options);
  } catch (error) {
    return error;
  }
}

describe('parseFencing', () => {
  test('reads the headers in every form that servers have them', () => {
    const forms: HeadersLike[] = [
      headers,
      new Headers(headers),
      Object.entries(headers),
      Object.entries(headers).flat(),
      new Map(Object.entries(headers)),
      Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value])),
      Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toUpperCase(), [value]])),
      { ...headers, 'x-other': undefined, cookie: ['a', 'b'] },
      ['Accept', '*/*', 'Accept', 'text/plain', ...Object.entries(headers).flat()],
    ];
    for (const form of forms) expect(parseFencing(form, { resource })).toEqual(grant);
    expect(Object.isFrozen(parseFencing(headers, { resource }))).toBe(true);
  });

  test('428 if there are none, 400 if one is missing, each named', () => {
    for (const none of [{}, new Headers(), [], { Accept: '*/*' }]) {
      expect(refusalOf(none)).toMatchObject({ status: 428, reason: 'missing', resource });
    }
    for (const name of Object.keys(headers)) {
      const rest = Object.fromEntries(Object.entries(headers).filter(([each]) => each !== name));
      const error = refusalOf(rest);
      expect(error).toBeInstanceOf(FencingHeaderError);
      expect(error).toMatchObject({ status: 400, reason: 'incomplete', header: name });
    }
    expect(refusalOf({ 'Fencing-Signature': 'x' })).toMatchObject({ status: 400, reason: 'incomplete' });
  });

  test('what came twice is refused in every form, also if both say the same', () => {
    for (const [name, value] of Object.entries(headers)) {
      const joined = new Headers(headers);
      joined.append(name, value);
      const forms: HeadersLike[] = [
        joined,
        { ...headers, [name]: [value, value] },
        { ...headers, [name.toLowerCase()]: value },
        { ...headers, [name]: `${value}, ${value}` },
        { ...headers, [name]: `${value},` },
        [...Object.entries(headers), [name, value]],
        [...Object.entries(headers).flat(), name.toLowerCase(), value],
      ];
      for (const form of forms) {
        expect(refusalOf(form)).toMatchObject({ status: 400, reason: 'duplicated', header: name });
      }
      expect(refusalOf({ ...headers, [name]: [] })).toMatchObject({ status: 400 });
    }
  });

  test('a value that is no text is malformed', () => {
    for (const value of [5, null, {}, true]) {
      const error = refusalOf({ ...headers, 'Fencing-Token': value as unknown as string });
      expect(error).toMatchObject({ status: 400, reason: 'malformed', header: 'Fencing-Token' });
    }
  });

  test('the resource of the route decides, byte by byte', () => {
    for (const other of ['shop/pear', 'shop/Pears', 'Shop/pears', 'shop/pears ', 'shop/pe\u0061\u0300rs']) {
      expect(refusalOf(headers, { resource: other })).toMatchObject({ status: 400, reason: 'other-resource' });
    }
    const [composed, combining] = ['shop/\u00e9', 'shop/e\u0301'];
    const sent = fencingHeaders({ ...grant, resource: composed });
    expect(parseFencing(sent, { resource: composed }).resource).toBe(composed);
    expect(refusalOf(sent, { resource: combining })).toMatchObject({ reason: 'other-resource' });
  });

  test('a route that names no qualified name is a bug of the service, not of the client', () => {
    for (const wrong of ['pears', '', undefined, 7, null]) {
      expect(refusalOf(headers, { resource: wrong as string })).toBeInstanceOf(ConfigError);
    }
    expect(refusalOf(headers, { resource, verfy: 1 } as never)).toBeInstanceOf(ConfigError);
    expect(refusalOf(headers, { resource, verify: 'yes' as never })).toBeInstanceOf(ConfigError);
    for (const none of ['a: b', 7, null, [1, 2], [['a', 'b'], 'c']]) {
      expect(refusalOf(none as HeadersLike)).toBeInstanceOf(ConfigError);
    }
  });

  test('an error is one line, however long or strange the value', () => {
    for (const value of ['x'.repeat(100_000), 'a\r\nb', '\u0000', '\ud800']) {
      const error = refusalOf({ ...headers, 'Fencing-Token': value }) as Error;
      expect(error.message).toMatch(
        /^FENCING_HEADER shop\/pears: Fencing-Token is .{1,100}: must be decimal digits, .*$/,
      );
    }
  });
});

/** The tokens of a list that a parser accepts. */
function accepted(parse: (given: Record<string, string>) => Grant, tokens: readonly string[]): string[] {
  return tokens.filter((token) => {
    try {
      parse({ ...headers, 'Fencing-Token': token });
      return true;
    } catch {
      return false;
    }
  });
}

const noTokens = [
  ...['0', '-1', '+1', '-0', '00', '05', '1.0', '1.', '.5', '1e3', '1E3', '0x10', '0b1', '0o7', '1_000', '1n'],
  ...[' 5', '5 ', '\t5', '5\n', '\n5', '5\r\n', '\u00a05', '５', '٥', '५', '²', '½', '5\u0000', '\u200b5', '5\ud800'],
  ...['', ' ', 'NaN', 'Infinity', '-Infinity', 'null', 'undefined', 'true', '[5]', '{}', '"5"', "'5'", '5;q=1', '5,5'],
  ...[String(2 ** 53), String(2 ** 53 + 2), '9007199254740993', '9'.repeat(16), '1'.repeat(17), '9'.repeat(100_000)],
];
const tokens = ['1', '9', '10', '4294967296', '1700000000000000', String(2 ** 53 - 1)];

describe('a token', () => {
  test('is decimal digits, 1 to 2^53 - 1, in one spelling', () => {
    const parse = (given: Record<string, string>): Grant => parseFencing(given, { resource });
    expect(accepted(parse, noTokens)).toEqual([]);
    expect(accepted(parse, tokens)).toEqual(tokens);
    for (const token of tokens) {
      expect(String(parse({ ...headers, 'Fencing-Token': token }).fencingToken)).toBe(token);
    }
  });

  test('seeded bugs: parsers that use Number, parseInt or a loose pattern are found', () => {
    const loose: ((text: string) => number)[] = [
      Number,
      (text) => Number.parseInt(text, 10),
      (text) => (/^\d+$/.test(text) ? Number(text) : Number.NaN),
      (text) => (/^[1-9]\d*$/.test(text) ? Number(text) : Number.NaN),
      (text) => Number(text.trim()),
    ];
    for (const read of loose) {
      const parse = (given: Record<string, string>): Grant => {
        const fencingToken = read(given['Fencing-Token'] ?? '');
        if (!(fencingToken >= 1)) throw new Error('no token');
        return { ...grant, fencingToken };
      };
      expect(accepted(parse, tokens)).toEqual(tokens);
      expect(accepted(parse, noTokens), String(read)).not.toEqual([]);
    }
  });
});

/** What a handler is let in with: grants of `shop/pears`, sent to the route of `shop/apples`. */
async function reachesOther(route: (request: Request) => Promise<Response>): Promise<boolean> {
  const response = await route(new Request('http://127.0.0.1:9/shops/apples', { method: 'POST', headers }));
  return response.ok;
}

describe('fenced', () => {
  const handler = (): Response => new Response('in');
  const ofRoute = (request: Request): string => `shop/${new URL(request.url).pathname.split('/').at(-1)}`;

  test('the route names the resource; it may take its time', async () => {
    expect(await reachesOther(fenced({ resource: ofRoute }, handler))).toBe(false);
    expect(await reachesOther(fenced({ resource: async (request) => ofRoute(request) }, handler))).toBe(false);
    expect(await reachesOther(fenced({ resource: 'shop/apples' }, handler))).toBe(false);
    const own = new Request('http://127.0.0.1:9/shops/pears', { method: 'POST', headers });
    expect((await fenced({ resource: ofRoute }, handler)(own)).status).toBe(200);
  });

  test('seeded bug: a route that takes the resource from the header is found', async () => {
    const credulous = fenced(
      { resource: (request) => decodeURIComponent(request.headers.get('Fencing-Resource') ?? '') },
      handler,
    );
    expect(await reachesOther(credulous)).toBe(true);
  });

  test('seeded bug: a check in front of the data is found, because a late write gets past it', async () => {
    const later = { ...grant, fencingToken: grant.fencingToken + 1, leaseId: 'later' };
    const lateWrite = async (
      enter: (ledger: MemoryFence, its: Grant, pause: () => Promise<void>) => Promise<unknown>,
    ) => {
      const ledger = new MemoryFence();
      const route = fenced({ resource }, async (_request, its) => {
        // The process stands still at the worst moment, and a successor is let in.
        await enter(ledger, its, () => ledger.write(later, (tx) => tx.set('owner', 'later')));
        return new Response('in');
      });
      const response = await route(new Request('http://127.0.0.1:9/', { method: 'POST', headers }));
      return [response.status, ledger.values.get('owner')];
    };
    const checking = lateWrite(async (ledger, its, pause) => {
      await ledger.activate(its);
      await pause();
      // Whatever the data is, it does not ask: here the latest grant stands in for it.
      await ledger.write(later, (tx) => tx.set('owner', 'late'));
    });
    expect(await checking).toEqual([200, 'late']);
    const guarded = lateWrite(async (ledger, its, pause) => {
      await pause();
      await ledger.write(its, (tx) => tx.set('owner', 'late'));
    });
    expect(await guarded).toEqual([412, 'later']);
  });

  test('the handler is not called before the grant is read, and an error of naming is the application’s', async () => {
    let calls = 0;
    const counting = (): Response => new Response(String(++calls));
    const bare = new Request('http://127.0.0.1:9/shops/pears', { method: 'POST' });
    expect((await fenced({ resource }, counting)(bare)).status).toBe(428);
    const lost = new Error('no such shop');
    const naming = fenced({ resource: () => Promise.reject(lost) }, counting);
    await expect(naming(bare)).rejects.toBe(lost);
    await expect(fenced({ resource: () => 'apples' }, counting)(bare)).rejects.toThrow('CONFIG: resource');
    expect(calls).toBe(0);
  });

  test('options that cannot work are refused at once, for every kind of server', async () => {
    const wrong = [{}, { resource: 7 }, { resource, verify: 'yes' }, { resource, verfy: 1 }, undefined] as never[];
    for (const options of wrong) {
      expect(() => fenced(options, handler)).toThrow(ConfigError);
      expect(() => expressFencing(options)).toThrow(ConfigError);
      await expect(fastifyFencing({} as never, options)).rejects.toThrow(ConfigError);
    }
    for (const none of [undefined, 'handler'])
      expect(() => fenced({ resource }, none as never)).toThrow('CONFIG: handler');
    for (const fence of [undefined, null, {}, { activate() {} }]) {
      expect(() => fenceRoute(fence as never)).toThrow('CONFIG: fence: must be the fence');
    }
    for (const options of [{ resource: 7 }, { verify: 1 }, { allowSeal: true }, { seal: true }] as never[]) {
      expect(() => fenceRoute(new MemoryFence(), options)).toThrow(ConfigError);
    }
  });
});

describe('a fence route', () => {
  const ask = (route: (request: Request) => Promise<Response>, given: Record<string, string>, method = 'POST') =>
    route(new Request('http://127.0.0.1:9/fence', { method, headers: given }));

  test('for one resource takes grants of that one', async () => {
    const ledger = new MemoryFence();
    for (const named of ['shop/apples', async () => 'shop/apples']) {
      const route = fenceRoute(ledger, { resource: named });
      for (const method of ['POST', 'GET']) {
        const answer = await ask(route, headers, method);
        expect([answer.status, answer.headers.get('Fencing-Error')]).toEqual([
          400,
          'FENCING_HEADER;reason=other-resource',
        ]);
      }
      expect((await ask(route, fencingHeaders({ ...grant, resource: 'shop/apples' }))).status).toBe(204);
    }
    expect(await ledger.highest(resource)).toBeNull();
    await expect(ask(fenceRoute(ledger, { resource: 'apples' }), headers)).rejects.toThrow('CONFIG: resource');
  });

  test('says what the fence claims once it has answered, and passes on what is none of ours', async () => {
    const fence = new MemoryFence();
    let enforcing = false;
    let failure: Error | undefined;
    const behind = {
      ...{
        name: 'behind',
        write: fence.write.bind(fence),
        seal: fence.seal.bind(fence),
        highest: fence.highest.bind(fence),
      },
      get enforcing() {
        return enforcing;
      },
      async activate(its: Grant) {
        enforcing = true;
        if (failure !== undefined) throw failure;
        await fence.activate(its);
      },
    };
    const route = fenceRoute(behind);
    expect((await ask(route, headers, 'GET')).headers.get('Fencing-Enforcing')).toBe('0');
    expect((await ask(route, headers)).headers.get('Fencing-Enforcing')).toBe('1');
    failure = new Error('a bug of the fence');
    await expect(ask(route, headers)).rejects.toBe(failure);
  });
});
