import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { cpus, loadavg, release, totalmem, type } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

import { thisMachine } from '../../scripts/services/machine.mjs';
import type { Noise } from './report.ts';

export function machine(): string {
  const [cpu] = cpus();
  const model = cpu?.model.trim() ?? 'unknown';
  return `${cpus().length} cores (${model}), ${Math.round(totalmem() / 2 ** 30)} GB, ${type()} ${release()} ${process.arch}`;
}

/** µs since the start of the machine in which somebody waited for a core; null where the kernel does not say. */
function waitedUs(): number | null {
  try {
    const total = /^some .*total=(\d+)/m.exec(readFileSync('/proc/pressure/cpu', 'utf8'))?.[1];
    return total === undefined ? null : Number(total);
  } catch {
    return null;
  }
}

/** Begins to listen; gives what there was to hear since then. */
export function listen(): () => Noise {
  const [from, before] = [performance.now(), waitedUs()];
  return () => {
    const after = waitedUs();
    const ms = performance.now() - from;
    return {
      load: Number((loadavg()[0] ?? 0).toFixed(1)),
      waiting: before === null || after === null ? null : Number(((after - before) / 1000 / ms).toFixed(3)),
    };
  };
}

/** Above it, others are at work. */
const QUIET = 0.1;

/** Waits until the machine is quiet, for so long at most, and tells how it is then. */
export async function quiet(patienceMs: number): Promise<Noise> {
  const untilMs = performance.now() + patienceMs;
  for (;;) {
    const heard = listen();
    await sleep(Math.min(500, patienceMs));
    const noise = heard();
    if ((noise.waiting ?? 0) <= QUIET || performance.now() >= untilMs) return noise;
  }
}

/** What each benchmark is measured with, and the packages that this one names. */
export function versions(
  packages: readonly string[],
  services: { readonly redis?: string; readonly postgres?: string },
): Readonly<Record<string, string>> {
  // The client has the name of the server.
  const its = (name: string): [string, string] => [name === 'redis' ? 'node-redis' : name, versionOf(name)];
  return Object.fromEntries([
    ['node', process.version.slice(1)],
    ...Object.entries(services).flatMap(([name, path]): [string, string][] => [[name, serverVersion(name, path)]]),
    its('ioredis'),
    ...packages.map(its),
  ]);
}

function serverVersion(name: string, path: string): string {
  const text = thisMachine.version(name === 'postgres' ? join(path, 'postgres') : path) ?? '';
  return /(?:v=|PostgreSQL\)? )([\d.]+)/.exec(text)?.[1] ?? 'unknown';
}

const folders = [new URL('./', import.meta.url), new URL('../peers/', import.meta.url)];

/** As it is installed here. */
function versionOf(name: string): string {
  for (const folder of folders) {
    for (const modules of createRequire(folder).resolve.paths(name) ?? []) {
      try {
        const manifest = JSON.parse(readFileSync(join(modules, name, 'package.json'), 'utf8')) as { version: string };
        return manifest.version.replace(/^v/, '');
      } catch {
        continue;
      }
    }
  }
  throw new Error(`${name} is not installed`);
}
