import { closeSync, openSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { once } from 'node:events';
import { join } from 'node:path';

import { environmentOf, find } from '../../scripts/services/binaries.mjs';
import { spawnGuarded } from '../../scripts/services/guard.mjs';
import { thisMachine } from '../../scripts/services/machine.mjs';
import { startPostgres } from '../../scripts/services/postgres.mjs';
import { closed, opened } from './leftovers.ts';

/**
 * A PostgreSQL that becomes a hot standby: filled by `fill` as a primary, ended in good order and started again as the
 * standby of a primary that is gone. It can be read, and refuses every transaction that may write.
 */
export async function startStandby(
  fill: (url: string) => Promise<void>,
): Promise<AsyncDisposable & { readonly url: string }> {
  const { path: bin } = find('postgres', thisMachine);
  if (bin === null) throw new Error('no PostgreSQL');
  const server = await startPostgres({ bin });
  const first = { what: 'a PostgreSQL', end: server.stop };
  opened(first);
  await fill(server.url);
  const ended = once(server.process, 'exit');
  server.process.kill('SIGINT');
  await ended;

  const data = join(server.dir, 'data');
  const { uid, gid } = statSync(data);
  writeFileSync(join(data, 'standby.signal'), '');
  const [program = '', ...args] = server.process.spawnargs;
  const log = openSync(join(server.dir, 'standby.log'), 'a');
  const child = spawnGuarded(program, args, {
    ...(process.getuid?.() === 0 && { uid, gid }),
    cwd: data,
    env: { ...environmentOf(program), LC_ALL: 'C', PGTZ: 'GMT' },
    stdio: ['ignore', log, log],
    endSignal: 'SIGQUIT',
  });
  closeSync(log);
  const exit = once(child, 'exit');
  const end = async (): Promise<void> => {
    closed(first);
    child.kill('SIGQUIT');
    await exit;
    await server.stop();
  };
  first.end = end;
  // The server itself writes down when it takes connections.
  while (!/^\d+$/.test(`${child.exitCode ?? ''}`) && !isReady(data, child.pid))
    await new Promise((wake) => setTimeout(wake, 10));
  if (child.exitCode !== null) throw new Error(`no standby:\n${readFileSync(join(server.dir, 'standby.log'), 'utf8')}`);
  return { url: server.url, [Symbol.asyncDispose]: end };
}

function isReady(data: string, pid: number | undefined): boolean {
  try {
    const lines = readFileSync(join(data, 'postmaster.pid'), 'utf8').split('\n');
    return lines[0] === `${pid}` && lines[7]?.trim() === 'ready';
  } catch {
    return false; // not yet there
  }
}
