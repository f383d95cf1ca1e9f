import { describe, expect, test } from 'vitest';
import { describeTarget, findTarget, type ConnectionFlags } from '../../src/connection.ts';

const config = { redis: 'redis://in-config:6380/2', prefix: 'shop' };
const env = { LEASEHOLD_REDIS_URL: 'redis://ours', REDIS_URL: 'redis://theirs' };

async function line(flags: ConnectionFlags, environment: Readonly<Record<string, string>> = {}): Promise<string> {
  return describeTarget(await findTarget(flags, environment, async () => config));
}

describe('the store', () => {
  test.each<[string, ConnectionFlags, Readonly<Record<string, string>>, string]>([
    ['of the flag comes first', { url: 'redis://flag', config: 'a.yaml' }, env, 'redis://flag:6379/0 · prefix shop'],
    ['of the config next', { config: 'a.yaml' }, env, 'redis://in-config:6380/2 · prefix shop · a.yaml'],
    ['of our variable next', {}, env, 'redis://ours:6379/0 · prefix leasehold · LEASEHOLD_REDIS_URL'],
    [
      'of the common variable next',
      {},
      { REDIS_URL: env.REDIS_URL },
      'redis://theirs:6379/0 · prefix leasehold · REDIS_URL',
    ],
    ['of nobody is the one here', {}, {}, 'redis://127.0.0.1:6379/0 · prefix leasehold · default'],
    [
      'keeps a prefix that was given',
      { config: 'a.yaml', prefix: 'x' },
      {},
      'redis://in-config:6380/2 · prefix x · a.yaml',
    ],
    ['is encrypted with --tls', { url: 'redis://h/1', tls: true }, {}, 'rediss://h:6379/1 · prefix leasehold'],
  ])('%s', async (_name, flags, environment, expected) => expect(await line(flags, environment)).toBe(expected));

  test('never shows credentials, of whatever they consist', async () => {
    const shown = await line({ url: 'redis://us%40er:s3cr%2Fet@h:1/0' }, { REDISCLI_AUTH: 'other' });
    expect(shown).toBe('redis://h:1/0 · prefix leasehold');
    await expect(line({ url: 'postgres://user:s3cret@h' })).rejects.toThrow(/^--url is no address(?!.*s3cret)/);
    await expect(line({}, { REDIS_URL: 'h:s3cret' })).rejects.toThrow(/^REDIS_URL is no address(?!.*s3cret)/);
  });

  test('gets the password of REDISCLI_AUTH, unless the address has one', async () => {
    const sourceOf = async (url: string) =>
      (await findTarget({ url }, { REDISCLI_AUTH: 'p@ss/w' }, async () => config)).redis;
    expect(await sourceOf('redis://h')).toBe('redis://:p%40ss%2Fw@h');
    expect(await sourceOf('redis://u:own@h')).toBe('redis://u:own@h');
  });

  test('has the further servers of a config only if it is that of the config: they get its password', async () => {
    const its = { ...config, endpoints: [{ host: '::1', port: 6380 }] };
    const endpointsOf = async (flags: ConnectionFlags) =>
      (await findTarget({ config: 'a.yaml', ...flags }, env, async () => its)).endpoints;
    expect(await endpointsOf({})).toEqual(its.endpoints);
    expect(await endpointsOf({ prefix: 'x' })).toEqual(its.endpoints);
    expect(await endpointsOf({ url: 'redis://elsewhere' })).toEqual([]);
  });

  test('is not asked with a certificate that cannot be read', async () => {
    await expect(line({ url: 'redis://h', cacert: '/no/such/file' })).rejects.toMatchObject({ exit: 2 });
  });
});
