import { LeaseholdError, StoreUnavailableError } from '../../errors.ts';
import type { LeaseEvent } from '../../events.ts';
import type { LeaseManager } from '../../lease/manager.ts';
import { qualify } from '../../names.ts';
import type { Act, HistoryLine, Phase } from './history.ts';

/** What a line says besides when, who and what. */
export type About = Partial<Omit<HistoryLine, 'atMs' | 'seq' | 'process' | 'act' | 'phase' | 'call'>>;

/** A call that was begun; it is told its end once. */
export interface Recording {
  readonly about: About;
  end(phase: Exclude<Phase, 'invoke'>, more?: About): void;
}

export interface RecorderOptions {
  /** One life of one process. */
  readonly process: string;
  /** Milliseconds on the clock that all writers share. */
  readonly now: () => number;
  /** Where lines go. */
  readonly write: (line: HistoryLine) => void;
}

/** Writes down what one process does. */
export class Recorder {
  readonly process: string;
  readonly now: () => number;
  readonly #write: (line: HistoryLine) => void;
  #seq = 0;
  #calls = 0;

  constructor({ process, now, write }: RecorderOptions) {
    this.process = process;
    this.now = now;
    this.#write = write;
  }

  line(act: Act, phase: Phase, about: About = {}, call?: number): void {
    this.#write({ atMs: this.now(), seq: ++this.#seq, process: this.process, act, phase, call, ...about });
  }

  begin(act: Act, about: About = {}): Recording {
    const call = ++this.#calls;
    this.line(act, 'invoke', about, call);
    const { resource, leaseId, fencingToken, writeId } = about;
    let isOpen = true;
    return {
      about,
      end: (phase, more = {}) => {
        if (isOpen) this.line(act, phase, { resource, leaseId, fencingToken, writeId, ...more }, call);
        isOpen = false;
      },
    };
  }

  /** Writes down what a manager says of its leases. Returns what ends that. */
  listen(manager: LeaseManager): () => void {
    const say = (act: Act) => (event: LeaseEvent & { readonly reason?: string; readonly error?: object }) => {
      const { resource, leaseId, fencingToken, reason, error = {} } = event;
      const outcome = reason ?? ('reason' in error ? String(error.reason) : undefined);
      this.line(act, 'ok', { resource: qualify(manager.namespace, resource), leaseId, fencingToken, outcome });
    };
    const acts = ['acquired', 'extended', 'cancelled', 'lost', 'released'] as const;
    const listeners = acts.map((act) => ({ act, listener: say(act) }));
    for (const { act, listener } of listeners) manager.on(act, listener);
    return () => {
      for (const { act, listener } of listeners) manager.off(act, listener);
    };
  }
}

/** Whether a failed call is known to have done nothing, and its code. */
export function endOf(error: unknown): { readonly phase: 'fail' | 'info'; readonly outcome: string } {
  const own = LeaseholdError.of(error);
  if (own === undefined) return { phase: 'info', outcome: 'unknown' };
  return {
    phase: own instanceof StoreUnavailableError && own.mayHaveRun ? 'info' : 'fail',
    outcome: own.code,
  };
}
