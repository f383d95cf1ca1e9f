import { describe, expect, test } from 'vitest';
import { secretsOf, withoutSecrets } from '../../src/incident/secrets.ts';
import type { Target } from '../../src/connection.ts';

const target: Target = {
  redis: {
    kind: 'sentinel',
    nodes: [],
    name: 'm',
    db: 0,
    username: 'app',
    password: 'of-the-server',
    tls: undefined,
    sentinelUsername: undefined,
    sentinelPassword: 'of-the-sentinels',
    sentinelTls: false,
  },
  prefix: 'shop',
  endpoints: [],
  address: '',
  origin: undefined,
};

describe('passwords', () => {
  const secrets = secretsOf(
    target,
    new Map([
      ['data', { kind: 'redis', redis: 'redis://u:of%2Fthe-fence@h', timeoutMs: undefined }],
      [
        'ledger',
        {
          ...{ kind: 'postgres', url: 'postgres://u:of-the-database@h/x', schema: 's', isolation: 'read committed' },
          ...{ timeoutMs: undefined, idleTimeoutMs: undefined, lockTimeoutMs: undefined },
        },
      ],
    ]),
    { REDISCLI_AUTH: 'of-the-shell', PGPASSWORD: 'of-postgres', REDIS_URL: 'redis://:of-another@h', DATABASE_URL: '%' },
  );

  test.each([
    'of-the-server',
    'of-the-sentinels',
    'of/the-fence',
    'of%2Fthe-fence',
    'of-the-database',
    'of-the-shell',
    'of-postgres',
    'of-another',
  ])('that this command knows are nowhere in what it writes: %s', (secret) => {
    const found = { a: [{ b: `typed ${secret} by mistake` }, secret], at: new Date(0), n: 1, none: null };
    const clean = withoutSecrets(found, secrets);
    expect(JSON.stringify(clean)).not.toContain(secret);
    expect(clean).toEqual({ a: [{ b: 'typed *** by mistake' }, '***'], at: new Date(0), n: 1, none: null });
  });

  test.each([
    ['see redis://app:unknown@cache:6379/0 for it', 'see redis://***@cache:6379/0 for it'],
    ['postgres://only-a-token@db', 'postgres://***@db'],
    ['-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----', '***'],
    ['-----BEGIN PRIVATE KEY-----\nMIIE, cut', '***'],
    ['ann@example.com asked, http://host/a@b', 'ann@example.com asked, http://host/a@b'],
  ])('that nobody knows are taken out by their form: %s', (text, clean) => {
    expect(withoutSecrets(text, [])).toBe(clean);
  });

  test('that are words of three letters are no reason to make everything unreadable', () => {
    expect(secretsOf({ ...target, redis: 'redis://:abc@h' }, new Map(), {})).toEqual([]);
  });
});
