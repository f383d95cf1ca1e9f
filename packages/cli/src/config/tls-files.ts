import { createPrivateKey, X509Certificate } from 'node:crypto';
import { readFileSync, statSync } from 'node:fs';

import type { Path, Problem } from './problem.ts';
import { isPem } from './redis-url.ts';
import type { RedisSettings, Settings, TlsSettings } from './settings.ts';
import type { Source } from './source.ts';

const PARTS = ['ca', 'cert', 'key'] as const;
type Part = (typeof PARTS)[number];

/** What cannot be used. The rule never has the path: it may be the environment's, or a key in a form that is no PEM. */
interface TlsFault {
  readonly part: Part;
  readonly rule: string;
}

/** Certificates and keys themselves, of files and of the environment, as far as they could be read. */
export interface TlsMaterial {
  readonly pem: Readonly<Partial<Record<Part, string>>>;
  readonly faults: readonly TlsFault[];
}

/** Reads and checks them: what connects would only say, again and again, that the server is out of reach. */
export function readTls(tls: TlsSettings): TlsMaterial {
  const pem: Partial<Record<Part, string>> = {};
  const faults: TlsFault[] = [];
  const fault = (part: Part, rule: string): void => void faults.push({ part, rule });
  for (const part of PARTS) {
    const given = tls[part];
    if (given === undefined) continue;
    const found = isPem(given) ? given : read(given);
    if (typeof found !== 'string') fault(part, found.rule);
    else if (part !== 'key' && !isCertificate(found)) fault(part, 'holds no certificate that can be read (PEM)');
    else pem[part] = found;
  }
  const { cert, key } = pem;
  if (cert !== undefined && key !== undefined) {
    const why = refusalOf(cert, key);
    if (why !== undefined) fault('key', `cannot be used with the certificate: ${why}`);
  }
  return { pem, faults };
}

/** A pipe or a device would be waited for. */
function read(file: string): string | Omit<TlsFault, 'part'> {
  try {
    if (statSync(file).isFile()) return readFileSync(file, 'utf8');
    return { rule: 'names what is no file; it is relative to the config' };
  } catch (error) {
    const { code = '' } = error as NodeJS.ErrnoException;
    return { rule: `names a file that cannot be read: ${code}; it is relative to the config` };
  }
}

function isCertificate(text: string): boolean {
  try {
    return new X509Certificate(text).raw.length > 0;
  } catch {
    return false;
  }
}

/** In the words of OpenSSL, which show nothing of what it was given. */
function refusalOf(cert: string, key: string): string | undefined {
  try {
    return new X509Certificate(cert).checkPrivateKey(createPrivateKey(key)) ? undefined : 'it is that of another one';
  } catch (error) {
    return (error as Error).message;
  }
}

/** What is wrong with the files of certificates and keys, on this machine: where a config is only checked they need not be. */
export function problemsOfTls({ store, fences, jobs }: Settings, source: Source): readonly Problem[] {
  const problems = problemsOfRedis(store.redis, ['store', 'redis'], source);
  for (const [name, fence] of fences) {
    if (fence.kind === 'redis') problems.push(...problemsOfRedis(fence.redis, ['fences', name, 'redis'], source));
  }
  for (const job of jobs) {
    if (job.kind !== 'queue' || job.connection === store.redis) continue;
    problems.push(...problemsOfRedis(job.connection, ['jobs', job.name, 'connection'], source));
  }
  return problems;
}

export function problemsOfRedis(redis: RedisSettings, path: Path, source: Source): Problem[] {
  const tls = typeof redis === 'string' ? undefined : redis.tls;
  if (tls === undefined) return [];
  return readTls(tls).faults.map(({ part, rule }) => source.problem([...path, 'tls', part], rule));
}
