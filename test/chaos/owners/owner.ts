import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { LeaseholdError, LeaseManager, type Grant, type Lease } from '@leasehold/core';
import { postgresFence } from '@leasehold/core/postgres';
import { redisStore } from '@leasehold/core/redis';
import { Recorder, RecordingFence, recordStore } from '@leasehold/core/testing/history';
import pg from 'pg';

import { heard, say } from '../../support/child-side.ts';
import { randomOf } from '../../e2e/fixtures/random.ts';
import { READ, WRITE } from '../ledger.ts';
import { Pen, sharedMs } from '../pen.ts';
import { bugOf } from './bugs.ts';
import { FENCE_TIMES, type OwnerSetup } from './setup.ts';
import { WitnessFence } from './witness-fence.ts';

/** How a run goes about its work. All times in milliseconds. */
export interface Manner {
  /** It reads, thinks, writes and rests so often. */
  readonly rounds: number;
  readonly thinkMs: number;
  readonly restMs: number;
  /** It does not listen to its signal, and writes by the bare grant, as a packet that left before anybody looked at a clock. */
  readonly isStubborn: boolean;
}

/** A job of a queue. */
export interface JobAtWork {
  readonly id: string;
  /** Others go on beside it under the same lease: a fence does not order the writes of one owner. */
  readonly isBeside: boolean;
}

/** What a process of any workload has: a manager and a fence that write down what they do, and a way to work under a lease. */
export class Owner {
  readonly setup: OwnerSetup;
  readonly recorder: Recorder;
  readonly manager: LeaseManager;
  readonly fence: RecordingFence<pg.PoolClient>;
  readonly random: () => number;
  readonly #fencePool: pg.Pool;
  readonly #readPool: pg.Pool;
  readonly #bug;
  #holdMs = 0;
  #writes = 0;

  constructor() {
    this.setup = JSON.parse(process.env['CHAOS_OWNER'] ?? '') as OwnerSetup;
    const { file, redisUrl, postgresUrl, prefix, ttlMs, seed, bug } = this.setup;
    const pen = new Pen(file);
    this.random = randomOf(seed);
    this.recorder = new Recorder({ process: this.setup.process, now: sharedMs, write: (line) => pen.write({ line }) });
    this.#bug = bugOf(bug);
    this.#fencePool = poolOf(postgresUrl, { max: 6 });
    this.#readPool = poolOf(postgresUrl, { max: 3, query_timeout: 4000 });
    const store = redisStore(redisUrl, { prefix });
    this.manager = new LeaseManager({
      store: recordStore(this.#bug.store?.(store) ?? store, this.recorder),
      ttl: ttlMs,
      owner: { name: this.setup.process },
      logger: SILENT,
    });
    this.recorder.listen(this.manager);
    const fence = postgresFence(this.#fencePool, FENCE_TIMES);
    this.fence = new RecordingFence(
      new WitnessFence(this.#bug.fence?.(fence, this.#fencePool) ?? fence, pen),
      this.recorder,
    );
    process.on('unhandledRejection', (error) => void say('unhandled', { error: describe(error) }));
    process.on('uncaughtException', (error) => void say('unhandled', { error: describe(error) }));
    void this.#obey();
  }

  /** Until it is told to close, by the stage or by SIGTERM. */
  async told(): Promise<void> {
    await Promise.race([heard('close'), once(process, 'SIGTERM')]);
  }

  async close(): Promise<void> {
    await this.manager.close({ grace: 0, abandonAfter: '5s' });
    await Promise.all([this.#fencePool.end(), this.#readPool.end()]);
    await say('closed');
    // It still listens; whatever else keeps it from ending is a fault.
    process.disconnect();
  }

  /** A manner by chance: most are short, some last longer than a lease, some do not listen. */
  manner(): Manner {
    const { random, setup } = this;
    // It shows at once, whoever is struck.
    if (setup.bug !== null) {
      // Whose engine forgets no lease must have the time to extend before its fence tells it.
      const thinkMs = setup.bug === 'immortal' ? setup.ttlMs : 5;
      return { rounds: 40, thinkMs, restMs: 40, isStubborn: setup.bug !== 'deaf' };
    }
    const isLong = random() < 0.2;
    return {
      rounds: isLong ? 8 + Math.floor(random() * 16) : 1 + Math.floor(random() * 5),
      thinkMs: random() * 50,
      restMs: 10 + random() * 120,
      isStubborn: random() < 0.3,
    };
  }

  /** Works under a lease. Throws what ended it; of a `job`, which must be done, also what keeps it from being done. */
  async work(lease: Lease, { rounds, thinkMs, restMs, isStubborn }: Manner, job?: JobAtWork): Promise<void> {
    const { signal, grant } = lease;
    const goesOn = (): boolean => isStubborn || this.#bug.isDeaf === true || !signal.aborted;
    const rest = (ms: number): Promise<unknown> =>
      isStubborn ? sleep(ms) : sleep(ms, undefined, { signal }).catch(() => {});
    for (let round = 0; round < rounds && goesOn(); round++) {
      const version = await this.#read(grant);
      await rest(thinkMs);
      if (!goesOn()) break;
      await this.#write(lease, isStubborn, version, job);
      await rest(restMs);
    }
    if (job !== undefined && !isStubborn) signal.throwIfAborted();
    // The last of them, on its way when all was over.
    if (signal.aborted && !isStubborn && job === undefined && this.random() < 0.5) {
      const version = await this.#read(grant);
      await sleep(this.random() * this.setup.ttlMs);
      await this.#write(lease, true, version, job);
    }
  }

  /** Does nothing about errors that our runs end with; all others are told. */
  async tolerant(work: () => Promise<unknown>): Promise<void> {
    try {
      await work();
    } catch (error) {
      if (LeaseholdError.of(error) === undefined && !isOfFault(error))
        void say('unhandled', { error: describe(error) });
    }
  }

  async #read(grant: Grant): Promise<number> {
    const { resource, leaseId } = grant;
    const reading = this.recorder.begin('read', { resource, leaseId });
    try {
      const { rows } = await this.#readPool.query<{ version: string }>(READ, [resource]);
      const version = Number(rows[0]?.version);
      reading.end('ok', { version });
      return version;
    } catch (error) {
      reading.end('info');
      throw new UnreadableError(error);
    }
  }

  async #write(lease: Lease, isBare: boolean, version: number, job: JobAtWork | undefined): Promise<void> {
    const { resource, fencingToken, leaseId } = lease.grant;
    const writeId = `${this.setup.process}-w${++this.#writes}`;
    const body = async (tx: Pick<pg.PoolClient, 'query'>): Promise<void> => {
      await tx.query(WRITE, [resource, fencingToken, leaseId, writeId, job?.id ?? null]);
      const holdMs = this.#holdMs;
      this.#holdMs = 0;
      if (holdMs > 0) {
        await say('section', { resource });
        await sleep(holdMs);
      }
    };
    const tag = { writeId, version: job?.isBeside === true ? undefined : version };
    const bug = this.#bug.write;
    if (bug !== undefined) return bug({ owner: this, lease, body, pool: this.#fencePool, tag });
    await this.fence.write(isBare ? lease.grant : lease, body, tag);
  }

  /** What the nemeses want of it. */
  async #obey(): Promise<void> {
    const block = async (): Promise<void> => {
      for (;;) {
        const { ms } = await heard<{ type: string; ms: number }>('block');
        const fromMs = sharedMs();
        while (sharedMs() - fromMs < ms);
        await say('blocked', { ms: sharedMs() - fromMs });
      }
    };
    const section = async (): Promise<void> => {
      for (;;) this.#holdMs = (await heard<{ type: string; holdMs: number }>('section')).holdMs;
    };
    await Promise.all([block(), section()]);
  }
}

const SILENT = { debug() {}, info() {}, warn() {}, error() {} };

/** The database did not answer a plain question. */
class UnreadableError extends Error {
  override name = 'UnreadableError';

  constructor(cause: unknown) {
    super('the data could not be read', { cause });
  }
}

/** What a fault does to a statement of the body: the database's own errors, and its client's. */
function isOfFault(error: unknown): boolean {
  if (error instanceof UnreadableError || error instanceof pg.DatabaseError) return true;
  if (!(error instanceof Error)) return false;
  return 'code' in error || /connection|timeout|terminated|not queryable/i.test(error.message);
}

function poolOf(url: string, options: pg.PoolConfig): pg.Pool {
  const pool = new pg.Pool({ connectionString: url, connectionTimeoutMillis: 5000, ...options });
  pool.on('error', () => {}); // whoever asks next hears of it
  pool.on('connect', (client) => client.on('error', () => {}));
  return pool;
}

export function describe(error: unknown): string {
  return error instanceof Error ? (error.stack ?? error.message) : String(error);
}
