import type { Logger } from 'pino';
import type { LoadedConfig } from '../config/load.ts';
import { exitOfSignal } from '../exit.ts';
import type { Io } from '../output/io.ts';
import type { CommonFlags } from './flags.ts';
import type { Session } from './session.ts';
import { onSignals } from './signals.ts';

/** Runs a cron or interval job once, now. A signal aborts it; a second one ends the process at once. */
export async function runJob(config: LoadedConfig, job: string, session: Session, flags: CommonFlags): Promise<void> {
  const [{ NotStartedError, RunCancelledError }, { runOnce }] = await Promise.all([
    import('@leasehold/core'),
    import('../run/run-once.ts'),
  ]);
  const log = await logTo(session.io, flags);
  const stop = new AbortController();
  let ending: number | undefined;
  const signals = onSignals((signal) => {
    if (ending !== undefined) process.exit(ending);
    ending = exitOfSignal(signal);
    stop.abort(new RunCancelledError(job, 'shutdown'));
  });
  try {
    await runOnce(config, job, { log, signal: stop.signal });
  } catch (error) {
    // It did as it was told, or the signal came before it.
    const isEnd = error instanceof RunCancelledError || error instanceof NotStartedError;
    if (ending === undefined || !isEnd) throw error;
    session.exit = ending;
  } finally {
    signals[Symbol.dispose]();
  }
}

/** The logs of jobs, to the standard output. */
export async function logTo(io: Io, { quiet = false, verbose = false }: CommonFlags): Promise<Logger> {
  const { pino } = await import('pino');
  const level = verbose ? 'debug' : quiet ? 'warn' : 'info';
  return pino({ level }, { write: (line: string) => void io.stdout.write(line) });
}
