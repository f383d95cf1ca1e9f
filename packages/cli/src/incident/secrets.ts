import type { RedisSettings, Settings } from '../config/settings.ts';
import type { Target } from '../connection.ts';

const HIDDEN = '***';
/** What an address has before its host, whoever wrote it. */
const CREDENTIALS = /\b([a-z][a-z0-9+.-]*:\/\/)[^\s/@"'<>]+@/gi;
const PRIVATE_KEY = /-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z ]*PRIVATE KEY-----|$)/g;
/** A word that short is found everywhere. */
const SHORTEST = 4;

/** Every password that this command knows of. */
export function secretsOf(
  target: Target,
  fences: Settings['fences'],
  env: Readonly<Record<string, string | undefined>>,
): readonly string[] {
  const urls = ['LEASEHOLD_REDIS_URL', 'REDIS_URL', 'DATABASE_URL'].map((name) => env[name] ?? '');
  const ofFences = [...fences.values()].flatMap((fence) =>
    fence.kind === 'redis' ? ofRedis(fence.redis) : ofUrl(fence.url),
  );
  const all = [
    ...[env['REDISCLI_AUTH'], env['PGPASSWORD']],
    ...ofRedis(target.redis),
    ...ofFences,
    ...urls.flatMap((url) => ofUrl(url)),
  ];
  const known = all.filter((each): each is string => each !== undefined && each.length >= SHORTEST);
  // The longest first: one may be a part of another.
  return [...new Set(known)].toSorted((a, b) => b.length - a.length);
}

function ofRedis(redis: RedisSettings): readonly (string | undefined)[] {
  if (typeof redis === 'string') return ofUrl(redis);
  return [redis.password, redis.kind === 'sentinel' ? redis.sentinelPassword : undefined];
}

/** As it is written there, and as it is meant. */
function ofUrl(url: string): readonly string[] {
  if (!URL.canParse(url)) return [];
  const { password, searchParams } = new URL(url);
  const given = [password, searchParams.get('password') ?? ''];
  return given.flatMap((each) => [each, decoded(each)]);
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** The same data without them, wherever in a text they are: somebody may have typed one as a reason. */
export function withoutSecrets<T>(value: T, secrets: readonly string[]): T {
  return scrubbed(value, secrets) as T;
}

function scrubbed(value: unknown, secrets: readonly string[]): unknown {
  if (typeof value === 'string') {
    const text = secrets.reduce((rest, secret) => rest.replaceAll(secret, HIDDEN), value);
    return text.replace(CREDENTIALS, `$1${HIDDEN}@`).replace(PRIVATE_KEY, HIDDEN);
  }
  if (typeof value !== 'object' || value === null || value instanceof Date) return value;
  if (Array.isArray(value)) return value.map((each: unknown) => scrubbed(each, secrets));
  return Object.fromEntries(Object.entries(value).map(([name, each]) => [name, scrubbed(each, secrets)]));
}
