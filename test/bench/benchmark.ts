import type { Hosted } from './host.ts';
import type { Findings, LeftOut, Size } from './report.ts';

/** One question about speed. What it measures runs in other processes; this is who asks them in turn. */
export interface Benchmark {
  readonly name: string;
  readonly title: string;
  readonly method: string;
  /** Packages whose versions belong to the answer, beside those of every benchmark. */
  readonly packages: readonly string[];
  run(context: Context): Promise<Findings>;
}

export interface HostOptions {
  readonly execArgv?: readonly string[];
  /** A process of its own even where others share that of the asker. For what is to be killed. */
  readonly alone?: boolean;
}

export interface Context {
  readonly size: Size;
  /** What belongs to this size. */
  pick<T>(choice: Readonly<Record<Size, T>>): T;
  /** A redis-server that writes nothing to its disk; it ends with the benchmark. */
  redis(): Promise<{ readonly url: string; readonly port: number }>;
  /** An empty database, on a server of the benchmark's own where one is started for it. */
  postgres(options: { readonly fsync: 'on' | 'off' }): Promise<{ readonly url: string; readonly port: number }>;
  /** A side of variants/, in a process of its own. It ends with the benchmark. */
  host(side: SideName, setup: object, options?: HostOptions): Promise<Hosted>;
  /** Kept for the reader: what should be here and is not. */
  readonly leftOut: LeftOut[];
  onEnd(end: () => Promise<unknown>): void;
}

/** Modules of variants/. */
export type SideName =
  | 'bullmq'
  | 'bullmq-keys'
  | 'cron'
  | 'hand-off'
  | 'heap'
  | 'held'
  | 'locks'
  | 'postgres-fence'
  | 'redis-fence'
  | 'scale-distance'
  | 'scale-leases'
  | 'scale-names'
  | 'scale-waiters'
  | 'takeover';
