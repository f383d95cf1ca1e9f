// The main module of a thread that runs the handler of one job.
import { pathToFileURL } from 'node:url';
import { parentPort, workerData } from 'node:worker_threads';

import type { Fence } from '@leasehold/core';
import { pino } from 'pino';

import type { JobContext, JobHandler } from '../context.ts';
import { fencesOfJob, openFence } from '../fences.ts';
import { plainOf, reasonOf, type FromThread, type RunMessage, type ThreadData, type ToThread } from './messages.ts';
import { ThreadLease } from './thread-lease.ts';

if (parentPort === null) throw new Error('this is for a thread');
const port = parentPort;
const { job, file, exported, fences: settings, logLevel } = workerData as ThreadData;

function tell(message: FromThread): void {
  port.postMessage(message);
}

const log = pino({ level: logLevel, base: null }, { write: (line: string) => tell({ type: 'log', line }) });
const all = new Map<string, Fence | null>();
for (const [name, its] of settings) all.set(name, its === null ? null : (await openFence(name, its, log)).fence);
const { list, byName } = fencesOfJob(job, all);
const own = new Set(list);
const module = (await import(pathToFileURL(file).href)) as Readonly<Record<string, unknown>>;
const handler = module[exported] as JobHandler;

let current: { readonly message: RunMessage; readonly abort: AbortController } | undefined;

async function run(message: RunMessage): Promise<void> {
  const abort = new AbortController();
  current = { message, abort };
  const lease = new ThreadLease(message.lease, abort.signal, own, ({ fence, resource, fencingToken, highest }) =>
    tell({
      type: 'refused',
      refusal: { fence, resource: resource ?? '', fencingToken: fencingToken ?? 0, highest },
    }),
  );
  const { job, run } = message;
  const context = { job, run, lease, signal: abort.signal, fences: byName, log } as unknown as JobContext;
  try {
    const value = await handler(context);
    tell({ type: 'done', value });
  } catch (error) {
    // Also of a value that cannot be sent.
    tell({ type: 'failed', error: plainOf(error) });
  }
}

port.on('message', (message: ToThread) => {
  if (message.type === 'run') {
    void run(message);
  } else if (current !== undefined) {
    const { lease } = current.message;
    current.abort.abort(reasonOf(message.reason, lease.resource, lease.grant));
  }
});
