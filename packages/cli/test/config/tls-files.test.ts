import { generateKeyPairSync } from 'node:crypto';
import { rootCertificates } from 'node:tls';

import { expect, test } from 'vitest';

import { readTls } from '../../src/config/tls-files.ts';
import { sourceOf } from '../../src/redis.ts';
import { folderOf } from './support.ts';

const [certificate = ''] = rootCertificates;
const key = generateKeyPairSync('ed25519').privateKey.export({ type: 'pkcs8', format: 'pem' }).toString();
const none = { ca: undefined, cert: undefined, key: undefined, servername: undefined };
const NO_CERTIFICATE = 'holds no certificate that can be read (PEM)';

test('certificates are read from files and from the environment', async () => {
  await using folder = await folderOf({ 'ca.pem': `of somebody\n${certificate}` });
  const { pem, faults } = readTls({ ...none, ca: folder.file('ca.pem'), cert: certificate });
  expect(faults).toEqual([]);
  expect(pem).toEqual({ ca: `of somebody\n${certificate}`, cert: certificate });
});

test.each([
  [
    'a file that is not there',
    '/nowhere/ca.pem',
    'names a file that cannot be read: ENOENT; it is relative to the config',
  ],
  ['a folder', '/', 'names what is no file; it is relative to the config'],
  ['a device, which never ends', '/dev/zero', 'names what is no file; it is relative to the config'],
  ['a key', key, NO_CERTIFICATE],
  ['a certificate whose lines were joined', certificate.replaceAll('\n', String.raw`\n`), NO_CERTIFICATE],
])('%s is no authority, and is not waited for', (_what, ca, rule) => {
  expect(readTls({ ...none, ca }).faults).toEqual([{ part: 'ca', rule }]);
  const redis = {
    kind: 'server',
    host: '127.0.0.1',
    port: 1,
    db: 0,
    username: undefined,
    password: undefined,
  } as const;
  expect(() => sourceOf({ ...redis, tls: { ...none, ca } })).toThrow(`CONFIG: tls.ca: ${rule}`);
});

test.each([
  ['of another certificate', key],
  ['that is none', 'PRIVATE KEY'],
])('a key %s is told of, and not shown', async (_what, its) => {
  await using folder = await folderOf({ key: its });
  const { faults } = readTls({ ...none, cert: certificate, key: folder.file('key') });
  expect(faults).toEqual([{ part: 'key', rule: expect.stringContaining('cannot be used with the certificate: ') }]);
  expect(JSON.stringify(faults)).not.toContain('PRIVATE');
});
