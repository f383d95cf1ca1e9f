import { join } from 'node:path';
import { LeaseManager, qualify } from '@leasehold/core';
import { postgresFence } from '@leasehold/core/postgres';
import { redisStore } from '@leasehold/core/redis';
import { Recorder, RecordingFence, recordStore, type History } from '@leasehold/core/testing/history';
import { Redis } from 'ioredis';
import pg from 'pg';

import { guardedFolder, removeFolder } from '../../scripts/services/guard.mjs';
import { randomOf } from '../e2e/fixtures/random.ts';
import { FakeTime } from '../support/faketime.ts';
import { createDatabase } from '../support/postgres.ts';
import { TcpProxy } from '../support/proxy.ts';
import { uniqueName } from '../support/redis-client.ts';
import { startRedis, type RedisServer } from '../support/redis-server.ts';
import { Ends } from './ends.ts';
import { Island } from './equipment/island.ts';
import { startReplica } from './equipment/lagging-replica.ts';
import { MortalPostgres } from './equipment/own-postgres.ts';
import { Ledger } from './ledger.ts';
import { LiveSeat } from './live-seat.ts';
import type { Need, WorkloadName } from './nemesis.ts';
import { FENCE_TIMES, type BugName, type OwnerSetup } from './owners/setup.ts';
import { Pen, readWritten, sharedMs, type Refused } from './pen.ts';
import type { OwnPostgres, Replica, Seat, Stage } from './stage.ts';

export interface StageOptions {
  readonly seed: number;
  readonly workload: WorkloadName;
  readonly needs: ReadonlySet<Need>;
  readonly ttlMs: number;
  readonly seats: number;
  readonly resources: readonly string[];
  /** A superuser's URL of the PostgreSQL that all stages share. */
  readonly postgresUrl: string;
  readonly queue: OwnerSetup['queue'];
  readonly bug: BugName | null;
}

const SILENT = { debug() {}, info() {}, warn() {}, error() {} };

/** What a stage consists of; the disposables end in the opposite order. */
export class LiveStage implements Stage, AsyncDisposable {
  readonly random: () => number;
  readonly ttlMs: number;
  readonly seats: readonly LiveSeat[];
  readonly resources: readonly string[];
  readonly recorder: Recorder;
  /** Writes the lines of nemeses at the times that it is given. */
  readonly nemesisPen: (line: Parameters<Pen['write']>[0]) => void;
  readonly manager: LeaseManager;
  readonly fence: RecordingFence<unknown>;
  readonly ledger: Ledger;
  readonly prefix: string;
  readonly redis: RedisServer;
  readonly redisAdmin: Redis;
  readonly redisProxy: TcpProxy;
  readonly replica?: Replica;
  readonly postgresUrl: string;
  readonly postgres?: OwnPostgres;
  readonly storeClock?: FakeTime;
  readonly #dir: string;
  readonly #ends: Ends;

  private constructor(parts: Parts, options: StageOptions, ends: Ends) {
    const { seed, ttlMs, resources, workload, queue, bug } = options;
    this.random = randomOf(seed);
    this.ttlMs = ttlMs;
    this.resources = resources;
    this.#ends = ends;
    this.#dir = parts.dir;
    this.prefix = parts.prefix;
    this.ledger = parts.ledger;
    this.redis = parts.redis;
    this.redisProxy = parts.redisProxy;
    this.postgresUrl = parts.postgresUrl;
    if (parts.replica !== undefined) this.replica = parts.replica;
    if (parts.postgres !== undefined) this.postgres = parts.postgres;
    if (parts.storeClock !== undefined) this.storeClock = parts.storeClock;

    const pen = new Pen(join(this.#dir, 'stage.jsonl'));
    ends.defer(() => pen.close());
    this.nemesisPen = (line) => pen.write(line);
    this.recorder = new Recorder({ process: 'stage', now: sharedMs, write: (line) => pen.write({ line }) });
    this.redisAdmin = adminOf(this.redis.url);
    ends.defer(() => this.redisAdmin.disconnect());
    this.manager = new LeaseManager({
      store: recordStore(redisStore(this.redisProxy.redisUrl, { prefix: this.prefix }), this.recorder),
      ttl: ttlMs,
      owner: { name: 'stage' },
      logger: SILENT,
    });
    ends.defer(async () => void (await this.manager.close({ grace: 0, abandonAfter: 0 })));
    const pool = new pg.Pool({ connectionString: this.postgresUrl, max: 2, connectionTimeoutMillis: 2000 });
    pool.on('error', () => {});
    ends.defer(() => pool.end());
    this.fence = new RecordingFence(postgresFence(pool, FENCE_TIMES), this.recorder);

    this.seats = parts.ways.map((way, index) => {
      const name = `owner-${index + 1}`;
      let lives = 0;
      return ends.use(
        new LiveSeat({
          name,
          ...way,
          database: new URL(this.postgresUrl).pathname.slice(1),
          setup: (life, urls) => ({
            ...urls,
            ...{ process: life, workload, prefix: this.prefix, resources, ttlMs, queue, bug },
            file: join(this.#dir, `${life}.jsonl`),
            seed: seed + 1000 * (index + 1) + ++lives,
          }),
          died: (process, outcome) => this.#died(process, outcome),
          ticket: (from, ticket) => this.#handOn(from, ticket),
        }),
      );
    });
  }

  /** All processes are at work when this resolves. */
  static async open(options: StageOptions): Promise<LiveStage> {
    const ends = new Ends();
    try {
      const stage = new LiveStage(await prepare(options, ends), options, ends);
      await Promise.all(stage.seats.map((seat) => seat.startAgain()));
      return stage;
    } catch (error) {
      await ends[Symbol.asyncDispose]();
      throw error;
    }
  }

  keyOf(resource: string): string {
    return `${this.prefix}:{${resource}}`;
  }

  async owner(resource?: string): Promise<{ readonly seat: Seat; readonly resource: string } | null> {
    const from = Math.floor(this.random() * this.resources.length);
    const all = [...this.resources.slice(from), ...this.resources.slice(0, from)];
    for (const each of resource === undefined ? all : [resource]) {
      const info = await this.manager.inspect(each).catch(() => null);
      if (info?.state !== 'held') continue;
      const seat = this.seats.find(({ life, isAlive }) => isAlive && life === info.identity?.name);
      if (seat !== undefined) return { seat, resource: each };
    }
    return null;
  }

  anySeat(): Seat | null {
    const alive = this.seats.filter(({ isAlive }) => isAlive);
    return alive[Math.floor(this.random() * alive.length)] ?? null;
  }

  get qualified(): readonly string[] {
    return this.resources.map((resource) => qualify(this.prefix, resource));
  }

  /** What was said and done up to `endMs`, when no process writes any more. */
  async history(endMs: number): Promise<History> {
    const files = this.seats.flatMap(({ name, lives }) =>
      Array.from({ length: lives }, (_, index) => `${name}.${index + 1}`),
    );
    const all = ['stage', ...files].flatMap((name) => readWritten(join(this.#dir, `${name}.jsonl`)));
    const lines = all.flatMap((each) => ('line' in each ? [each.line] : []));
    const refused = all.flatMap((each): Refused[] => ('refused' in each ? [each.refused] : []));
    return { lines, fences: await this.ledger.rows(refused), grants: [], endMs };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#ends[Symbol.asyncDispose]();
  }

  #died(process: string, outcome: string): void {
    const line = { atMs: sharedMs(), seq: 2 ** 31, process, act: 'died', phase: 'ok', outcome } as const;
    this.nemesisPen({ line });
  }

  /** To anybody else who lives; a ticket that is lost is a lease that runs out. */
  #handOn(from: LiveSeat, ticket: unknown): void {
    const others = this.seats.filter((seat) => seat !== from && seat.isAlive);
    others[Math.floor(this.random() * others.length)]?.child.send('adopt', { ticket });
  }
}

interface Parts {
  readonly dir: string;
  readonly prefix: string;
  readonly ledger: Ledger;
  readonly redis: RedisServer;
  readonly redisProxy: TcpProxy;
  readonly replica: Replica | undefined;
  readonly postgresUrl: string;
  readonly postgres: OwnPostgres | undefined;
  readonly storeClock: FakeTime | undefined;
  readonly ways: readonly {
    readonly redisProxy: TcpProxy;
    readonly fenceProxy: TcpProxy;
    readonly clock: FakeTime | undefined;
    readonly island: Island | undefined;
  }[];
}

async function prepare(options: StageOptions, ends: Ends): Promise<Parts> {
  const { needs, resources } = options;
  const dir = guardedFolder('chaos');
  ends.defer(() => removeFolder(dir));
  const prefix = uniqueName('chaos');
  const storeClock = needs.has('store-clock') ? ends.use(new FakeTime()) : undefined;
  const redis = ends.use(
    await startRedis({
      args: ['--enable-debug-command', 'yes', ...(needs.has('aof') ? AOF : [])],
      ...(storeClock && { faketime: storeClock }),
    }),
  );
  const redisProxy = ends.use(await TcpProxy.start(redis));
  const replica = needs.has('replica') ? await startReplica(redis) : undefined;
  if (replica !== undefined) {
    ends.use(replica.link);
    ends.use(replica.redis);
  }
  const postgres = needs.has('own-postgres') ? ends.use(await MortalPostgres.start()) : undefined;
  const database = await createDatabase(postgres?.url ?? options.postgresUrl);
  const { url: postgresUrl } = database;
  // A server of its own takes it along.
  if (postgres === undefined) ends.use(database);
  const ledger = ends.use(
    await Ledger.create(
      postgresUrl,
      resources.map((resource) => qualify(prefix, resource)),
    ),
  );
  const way = async (): Promise<Parts['ways'][number]> => {
    const seatRedis = ends.use(await TcpProxy.start(redis));
    const seatFence = ends.use(await TcpProxy.start({ port: Number(new URL(postgresUrl).port) }));
    const outside = { redis: seatRedis.port, fence: seatFence.port };
    return {
      redisProxy: seatRedis,
      fenceProxy: seatFence,
      clock: needs.has('owner-clock') ? ends.use(new FakeTime()) : undefined,
      island: needs.has('networks') ? ends.use(await Island.start(outside)) : undefined,
    };
  };
  const ways = [];
  for (let seat = 0; seat < options.seats; seat++) ways.push(await way());
  return { dir, prefix, ledger, redis, redisProxy, replica, postgresUrl, postgres, storeClock, ways };
}

const AOF = ['--appendonly', 'yes', '--appendfsync', 'always'];

function adminOf(url: string): Redis {
  const admin = new Redis(url, { maxRetriesPerRequest: 1, retryStrategy: () => 50, commandTimeout: 5000 });
  admin.on('error', () => {}); // each command reports its own failure
  return admin;
}
