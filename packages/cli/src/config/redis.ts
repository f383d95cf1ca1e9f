import { resolve } from 'node:path';
import type { z } from 'zod';

import type { Judge } from './judge.ts';
import type { Path } from './problem.ts';
import { redisByCluster, redisByHost, redisBySentinel, redisByUrl } from './redis-schema.ts';
import { isPem, serverOfUrl } from './redis-url.ts';
import type { RedisServerSettings, RedisSettings, TlsSettings } from './settings.ts';

const FORMS = { url: redisByUrl, host: redisByHost, sentinels: redisBySentinel, cluster: redisByCluster } as const;
type Form = keyof typeof FORMS;

/** A Redis as it was written. A text is judged where it stands; undefined is what cannot be used, or is not there. */
export function redisOf(judge: Judge, path: Path, value: unknown, folder: string): RedisSettings | undefined {
  if (typeof value === 'string') return value;
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return undefined;
  const has = (Object.keys(FORMS) as Form[]).filter((form) => Object.hasOwn(value, form));
  const [form] = has;
  if (form === undefined || has.length > 1) {
    const what = form === undefined ? 'does not say where it is' : `has ${has.join(' and ')}`;
    judge.add(path, what, form === undefined ? 'give it url, host, sentinels or cluster' : 'keep one of them');
    return undefined;
  }
  for (const key of ['password', 'sentinelPassword']) refuseLiteral(judge, [...path, key], value, key);
  const given = judge.parse(FORMS[form], value, path);
  if (given === undefined) return undefined;
  const tls = tlsOf(judge, path, given.tls, folder);
  const access = { username: given.username, password: given.password || undefined, tls };
  if ('url' in given) return ofUrl(judge, path, given, access);
  if ('host' in given)
    return { kind: 'server', host: given.host, port: given.port ?? 6379, db: given.db ?? 0, ...access };
  if ('cluster' in given) return { kind: 'cluster', nodes: given.cluster, ...access };
  const { sentinels, name, sentinelUsername, sentinelPassword, sentinelTls = tls !== undefined } = given;
  if (sentinelTls && tls === undefined) {
    judge.add([...path, 'sentinelTls'], 'is true, and there is no tls', 'write tls: {}');
  }
  const its = { sentinelUsername, sentinelPassword: sentinelPassword || undefined, sentinelTls };
  return { kind: 'sentinel', nodes: sentinels, name, db: given.db ?? 0, ...access, ...its };
}

type Access = Pick<RedisServerSettings, 'username' | 'password' | 'tls'>;

function ofUrl(
  judge: Judge,
  path: Path,
  given: z.output<typeof redisByUrl>,
  { username, password, tls }: Access,
): RedisServerSettings {
  const server = serverOfUrl(new URL(given.url));
  for (const key of ['username', 'password', 'db'] as const) {
    if (given[key] === undefined || given[key] === '' || !isIn(new URL(given.url), key)) continue;
    judge.add([...path, key], 'is in the url as well', 'leave one out');
  }
  if (new URL(given.url).search !== '') {
    judge.add([...path, 'url'], 'has something after a ?, which is for a URL alone (its value is not shown)');
  }
  return {
    ...server,
    db: given.db ?? server.db,
    username: username ?? server.username,
    password: password ?? server.password,
    tls: tls ?? server.tls,
  };
}

function isIn(url: URL, key: 'username' | 'password' | 'db'): boolean {
  return key === 'db' ? url.pathname.length > 1 : url[key] !== '';
}

/** A secret in a file is in its history, too. A module may have it from anywhere. */
function refuseLiteral(judge: Judge, path: Path, value: object, key: string): void {
  if (!Object.hasOwn(value, key) || !judge.isLiteral(path)) return;
  judge.add(path, 'is written out (it is not shown): passwords come from the environment', 'write ${REDIS_PASSWORD}');
}

type GivenTls = z.output<typeof redisByUrl>['tls'];

function tlsOf(judge: Judge, path: Path, tls: GivenTls, folder: string): TlsSettings | undefined {
  if (tls === undefined) return undefined;
  const { ca, cert, key, servername } = tls;
  if ((cert === undefined) !== (key === undefined)) {
    const [has, needs] = cert === undefined ? ['key', 'cert'] : ['cert', 'key'];
    judge.add([...path, 'tls', has], `needs ${needs} beside it`, `give tls: { cert: …, key: … }`);
  }
  if (key !== undefined && isPem(key)) refuseLiteral(judge, [...path, 'tls', 'key'], tls, 'key');
  const file = (given: string | undefined): string | undefined =>
    given === undefined || isPem(given) ? given : resolve(folder, given);
  return { ca: file(ca), cert: file(cert), key: file(key), servername };
}
