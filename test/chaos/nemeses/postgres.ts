import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';

import { stateOf } from '../../support/signals.ts';
import type { Nemesis } from '../nemesis.ts';
import type { Stage } from '../stage.ts';
import { claim } from './claims.ts';
import { inSection } from './kill.ts';
import { untilMet } from './met.ts';
import { tried } from './admin.ts';

/** SIGSTOP of the fence's server and all its sessions. */
export const postgresPause: Nemesis = {
  name: 'postgres-pause',
  needs: ['own-postgres'],
  async strike(stage) {
    const { postgres } = stage;
    const claimed = postgres === undefined ? null : claim(postgres);
    if (postgres === undefined || claimed === null) return null;
    await postgres.pause();
    const from = stage.recorder.now();
    return {
      forMs: stage.ttlMs * (0.5 + stage.random()),
      async heal() {
        const stood = /^[Tt]/.test(stateOf(postgres.pid));
        postgres.resume();
        claimed[Symbol.dispose]();
        return stood ? stage.recorder.now() - from : 0;
      },
    };
  },
};

/** kill -9 of the fence's server and all its sessions; what it has confirmed is there when it is back. */
export const postgresKill: Nemesis = {
  name: 'postgres-kill',
  needs: ['own-postgres'],
  async strike(stage) {
    const { postgres } = stage;
    const claimed = postgres === undefined ? null : claim(postgres);
    if (postgres === undefined || claimed === null) return null;
    const { pid } = postgres;
    await postgres.kill();
    return {
      forMs: stage.ttlMs * stage.random(),
      async heal() {
        await postgres.restart();
        claimed[Symbol.dispose]();
        return postgres.pid === pid ? 0 : 1;
      },
    };
  },
};

/** All sessions of the database are ended, whatever they are in the midst of. */
export const sessionsTerminated: Nemesis = {
  name: 'postgres-terminate',
  async strike(stage) {
    const ended = await asked(
      stage,
      `select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()`,
    );
    return ended === undefined || ended === 0 ? null : { forMs: 0, heal: async () => ended };
  },
};

/** RST on the connections of an owner to its fence, while one of them is in a transaction. */
export const resetInTransaction: Nemesis = {
  name: 'fence-reset',
  async strike(stage) {
    const seat = await inSection(stage, stage.ttlMs * 0.3);
    if (seat === null) return null;
    const { fenceProxy } = seat;
    const before = fenceProxy.counters.connections;
    fenceProxy.cut('reset');
    // Who was cut off comes again.
    return { targets: [seat.life], forMs: 0, heal: () => untilMet(() => fenceProxy.counters.connections - before) };
  },
};

/** Somebody else's transaction has the rows of the guard, for longer than a lease. */
export const rowsHeld: Nemesis = {
  name: 'fence-rows-held',
  async strike(stage) {
    const client = new pg.Client(stage.postgresUrl);
    client.on('error', () => {}); // another fault may end it
    const isHeld = await tried(async () => {
      await client.connect();
      await client.query(`begin; set local lock_timeout = '1s'; select from leasehold.fence for update`);
      return true;
    });
    if (isHeld === undefined) {
      await client.end().catch(() => {});
      return null;
    }
    let most = 0;
    const over = new AbortController();
    let isCut = false;
    const watching = tried(async () => {
      while (!over.signal.aborted) {
        const { rows } = await client.query<{ n: number }>(WAITING);
        most = Math.max(most, rows[0]?.n ?? 0);
        await sleep(20);
      }
      return true;
    }).finally(() => (isCut = !over.signal.aborted));
    return {
      forMs: stage.ttlMs * (0.5 + stage.random()),
      async heal() {
        await untilMet(() => (isCut ? 1 : most));
        over.abort();
        const isWhole = await watching;
        await client.end().catch(() => {});
        // Ended before its time it cannot tell, and had them until then.
        return isWhole === undefined ? Math.max(most, 1) : most;
      },
    };
  },
};

const WAITING = `select count(*)::int as n from pg_stat_activity where pg_backend_pid() = any (pg_blocking_pids(pid))`;

/** How many rows it gives; undefined if the server cannot be asked just now. */
async function asked(stage: Stage, question: string): Promise<number | undefined> {
  const client = new pg.Client(stage.postgresUrl);
  client.on('error', () => {});
  const rows = await tried(async () => {
    await client.connect();
    return (await client.query(question)).rowCount ?? 0;
  });
  await client.end().catch(() => {});
  return rows;
}
