import { setTimeout as sleep } from 'node:timers/promises';

import { startChild, type Child, type Message } from '../support/child.ts';
import type { FakeTime } from '../support/faketime.ts';
import type { TcpProxy } from '../support/proxy.ts';
import type { Island } from './equipment/island.ts';
import type { OwnerSetup } from './owners/setup.ts';
import type { Seat } from './stage.ts';

export interface SeatOptions {
  readonly name: string;
  readonly redisProxy: TcpProxy;
  readonly fenceProxy: TcpProxy;
  readonly clock: FakeTime | undefined;
  readonly island: Island | undefined;
  /** Of a life. */
  readonly setup: (life: string, urls: { readonly redisUrl: string; readonly postgresUrl: string }) => OwnerSetup;
  /** Name of the database. */
  readonly database: string;
  readonly died: (life: string, outcome: 'killed' | 'ended') => void;
  readonly ticket: (seat: LiveSeat, ticket: unknown) => void;
}

/** To start, and to end in good order, on a machine that has much else to do. */
const PATIENCE_MS = 60_000;

export class LiveSeat implements Seat, AsyncDisposable {
  readonly name: string;
  readonly redisProxy: TcpProxy;
  readonly fenceProxy: TcpProxy;
  readonly clock?: FakeTime;
  readonly link?: { cut(): void; mend(): void };
  /** What went wrong that no fault explains. */
  readonly troubles: string[] = [];
  readonly #options: SeatOptions;
  #lives = 0;
  #life = '';
  #child: Child | undefined;
  #isAlive = false;
  #wasKilled = false;
  #starting: Promise<void> | undefined;

  constructor(options: SeatOptions) {
    this.#options = options;
    this.name = options.name;
    this.redisProxy = options.redisProxy;
    this.fenceProxy = options.fenceProxy;
    if (options.clock !== undefined) this.clock = options.clock;
    if (options.island !== undefined) this.link = options.island;
  }

  get lives(): number {
    return this.#lives;
  }

  get life(): string {
    return this.#life;
  }

  get child(): Child {
    if (this.#child === undefined) throw new Error(`${this.name} was not started`);
    return this.#child;
  }

  get isAlive(): boolean {
    return this.#isAlive;
  }

  async kill(): Promise<void> {
    if (!this.#isAlive) return;
    this.#wasKilled = true;
    await this.child.kill9();
  }

  startAgain(): Promise<void> {
    if (this.#isAlive) return Promise.resolve();
    this.#starting ??= this.#start().finally(() => (this.#starting = undefined));
    return this.#starting;
  }

  /** The friendly end; what is not friendly about it is a trouble. */
  async close(): Promise<void> {
    if (!this.#isAlive) return;
    const { child, life } = this;
    try {
      child.send('close');
      await child.next('closed', { timeoutMs: PATIENCE_MS });
      await Promise.race([child.exit, sleep(PATIENCE_MS, 'late', { ref: false })]);
    } catch (error) {
      this.troubles.push(`${life} did not close: ${String(error)}`);
    }
    if (this.#isAlive) {
      this.troubles.push(`${life} did not end after it had closed`);
      await this.kill();
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.kill();
  }

  async #start(): Promise<void> {
    const { name, setup, clock, island, redisProxy, fenceProxy, database } = this.#options;
    const life = `${name}.${++this.#lives}`;
    const [redis, fence] =
      island === undefined
        ? [redisProxy.redisUrl, `127.0.0.1:${fenceProxy.port}`]
        : [`redis://${island.host}:${island.ports.redis}`, `${island.host}:${island.ports.fence}`];
    const its = setup(life, { redisUrl: redis, postgresUrl: `postgres://postgres@${fence}/${database}` });
    const child = startChild(new URL(`owners/${its.workload}.ts`, import.meta.url), {
      env: { ...clock?.env, CHAOS_OWNER: JSON.stringify(its) },
      ...(island !== undefined && { within: island.within }),
    });
    this.#child = child;
    this.#life = life;
    this.#isAlive = true;
    this.#wasKilled = false;
    void child.exit.then((exit) => this.#ended(child, life, exit));
    void this.#forward(child);
    try {
      await child.next('ready', { timeoutMs: PATIENCE_MS });
    } catch (error) {
      // Another fault may have ended it before it was ready.
      if (!this.#wasKilled) this.troubles.push(String(error));
    }
  }

  #ended(child: Child, life: string, { code, signal }: { code: number | null; signal: string | null }): void {
    this.#isAlive = false;
    this.#options.died(life, signal === null ? 'ended' : 'killed');
    const isExplained = signal === 'SIGKILL' || code === 0;
    if (!isExplained) this.troubles.push(`${life} ended with ${code ?? signal}`);
    const said = unexpected(child.output);
    if (said !== '') this.troubles.push(`${life} said: ${said.slice(0, 2000)}`);
    for (const { type, error } of child.unread as readonly (Message & { error?: unknown })[]) {
      if (type === 'unhandled') this.troubles.push(`${life}: ${String(error)}`);
    }
  }

  async #forward(child: Child): Promise<void> {
    try {
      for (;;) {
        const { ticket } = await child.next<{ type: string; ticket: unknown }>('ticket', { timeoutMs: 2 ** 30 });
        this.#options.ticket(this, ticket);
      }
    } catch {
      // it has ended
    }
  }
}

/** What nobody has caught, and warnings of Node. Ours are for people, and belong to the faults that they tell of. */
function unexpected(output: string): string {
  return output
    .split('\n')
    .filter((line) => line.trim() !== '' && !/LeaseholdWarning|^\(Use `node --trace-/.test(line))
    .join('\n');
}
