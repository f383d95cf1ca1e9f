import { fork, type ChildProcess } from 'node:child_process';
import { fileURLToPath } from 'node:url';

import type { Order, Report, Setting } from './messages.ts';

/** One process of the demo, as its parent sees it. */
export interface Replica {
  readonly name: string;
  readonly pid: number | undefined;
  send(order: Order): void;
  signal(signal: 'SIGKILL' | 'SIGCONT'): void;
}

/** Hears whatever any of the processes reports, and of each end of one. */
export interface FleetListener {
  heard(replica: Replica, report: Report): void;
  ended(replica: Replica, how: { readonly code: number | null; readonly signal: NodeJS.Signals | null }): void;
}

const program = fileURLToPath(new URL('./replica.ts', import.meta.url));

/** The processes of the demo. None of them outlives this one. */
export class Fleet {
  readonly replicas: readonly Replica[];
  readonly #children = new Map<Replica, ChildProcess>();

  constructor(names: readonly string[], setting: Omit<Setting, 'name'>, listener: FleetListener) {
    this.replicas = names.map((name) => this.#start({ ...setting, name }, listener));
    process.on('exit', () => this.kill());
  }

  get size(): number {
    return this.#children.size;
  }

  sendAll(order: Order): void {
    for (const replica of this.#children.keys()) replica.send(order);
  }

  /** A stopped process, too. */
  kill(): void {
    for (const child of this.#children.values()) child.kill('SIGKILL');
  }

  #start(setting: Setting, listener: FleetListener): Replica {
    const child = fork(program, [JSON.stringify(setting)]);
    const replica: Replica = {
      name: setting.name,
      pid: child.pid,
      // A process that has just died cannot be told anything; its end is reported.
      send: (order) => void child.send(order, () => {}),
      signal: (signal) => void child.kill(signal),
    };
    this.#children.set(replica, child);
    child.on('message', (report) => listener.heard(replica, report as Report));
    child.on('exit', (code, signal) => {
      this.#children.delete(replica);
      listener.ended(replica, { code, signal });
    });
    return replica;
  }
}
