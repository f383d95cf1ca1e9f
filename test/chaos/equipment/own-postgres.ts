import { execFileSync } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, openSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

import { environmentOf, find } from '../../../scripts/services/binaries.mjs';
import { spawnGuarded } from '../../../scripts/services/guard.mjs';
import { thisMachine } from '../../../scripts/services/machine.mjs';
import { type PostgresProcess, startPostgres } from '../../../scripts/services/postgres.mjs';
import { closed, opened } from '../../support/leftovers.ts';
import { cont, isAlive, stop } from '../../support/signals.ts';
import type { OwnPostgres } from '../stage.ts';
import { LastWill } from './last-will.ts';

/** A PostgreSQL that can be stopped, killed and started again: same port, same data. */
export class MortalPostgres implements OwnPostgres, AsyncDisposable {
  readonly url: string;
  readonly #server: PostgresProcess;
  readonly #leftover = { what: 'a PostgreSQL of its own', end: () => this[Symbol.asyncDispose]() };
  #process: ChildProcess;
  #stopped: readonly number[] = [];
  #will: LastWill | null = null;

  private constructor(server: PostgresProcess) {
    this.#server = server;
    this.#process = server.process;
    this.url = server.url;
    opened(this.#leftover);
  }

  static async start(): Promise<MortalPostgres> {
    const { path: bin } = find('postgres', thisMachine);
    if (bin === null) throw new Error('no PostgreSQL');
    return new MortalPostgres(await startPostgres({ bin }));
  }

  get pid(): number {
    return this.#process.pid ?? 0;
  }

  get isRunning(): boolean {
    return this.#process.exitCode === null && this.#process.signalCode === null;
  }

  async kill(): Promise<void> {
    const sessions = childrenOf(this.pid);
    const gone = this.isRunning ? once(this.#process, 'exit') : null;
    this.#process.ref();
    // First who would start others in their place.
    for (const pid of [this.pid, ...sessions]) signal(pid, 'SIGKILL');
    await gone;
    while (sessions.some(isAlive)) await sleep(5);
    this.#forget();
  }

  async restart(): Promise<void> {
    if (this.isRunning) return;
    const data = join(this.#server.dir, 'data');
    const { uid, gid } = statSync(data);
    const [program = '', ...args] = this.#server.process.spawnargs;
    const log = openSync(join(this.#server.dir, 'postgres.log'), 'a');
    this.#process = spawnGuarded(program, args, {
      ...(process.getuid?.() === 0 && { uid, gid }),
      cwd: data,
      env: { ...environmentOf(program), LC_ALL: 'C', PGTZ: 'GMT' },
      stdio: ['ignore', log, log],
      endSignal: 'SIGQUIT',
    });
    closeSync(log);
    this.#process.unref();
    while (this.isRunning && !isReady(data, this.pid)) await sleep(10);
    if (!this.isRunning) throw new Error(`it did not start again; its log is in ${this.#server.dir}`);
  }

  async pause(): Promise<void> {
    await stop(this.pid); // starts no session any more
    this.#stopped = childrenOf(this.pid);
    this.#will = new LastWill(`kill -CONT ${this.#stopped.join(' ')}`);
    for (const pid of this.#stopped) await stop(pid).catch(() => {}); // it has just ended
  }

  resume(): void {
    for (const pid of [...this.#stopped, this.pid]) signal(pid, 'SIGCONT');
    this.#forget();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    closed(this.#leftover);
    this.resume();
    if (this.isRunning) {
      const gone = once(this.#process, 'exit');
      this.#process.ref();
      this.#process.kill('SIGQUIT');
      await gone;
    }
    await this.#server.stop();
  }

  #forget(): void {
    this.#stopped = [];
    this.#will?.[Symbol.dispose]();
    this.#will = null;
  }
}

function signal(pid: number, name: 'SIGKILL' | 'SIGCONT'): void {
  try {
    if (name === 'SIGCONT') cont(pid);
    else process.kill(pid, name);
  } catch {
    // it has ended
  }
}

/** Each session is a process. */
function childrenOf(parent: number): readonly number[] {
  const all = execFileSync('ps', ['-A', '-o', 'pid=,ppid='], { encoding: 'utf8' }).trim().split('\n');
  return all
    .map((line) => line.trim().split(/\s+/).map(Number))
    .flatMap(([pid, ppid]) => (ppid === parent && pid !== undefined ? [pid] : []));
}

/** The server itself writes down when it takes connections. */
function isReady(data: string, pid: number): boolean {
  try {
    const lines = readFileSync(join(data, 'postmaster.pid'), 'utf8').split('\n');
    return lines[0] === `${pid}` && lines[7]?.trim() === 'ready';
  } catch {
    return false; // not yet there
  }
}
