/** What one process does next, from its place in the list of its steps. */
export interface Step {
  readonly id: string;
  readonly kind: 'run' | 'tick' | 'acquire' | 'try' | 'hand-over';
  readonly resource: string;
  /** So long after the step before. Milliseconds, as all that follows. */
  readonly afterMs: number;
  readonly waitMs: number;
  readonly writes: number;
  /** Between the read and the write that goes by it. */
  readonly thinkMs: number;
  /** Between one write and the next. */
  readonly holdMs: number;
  /** How long a write is under way at the resource, between its check and its commit. */
  readonly commitMs: number;
  /** Goes on when its signal has aborted. */
  readonly isStubborn: boolean;
  /** Writes with the bare grant, so that only the fence can refuse it. */
  readonly isDelegated: boolean;
  /** Wants it no more after so long, whatever has become of it by then. 0 for never. */
  readonly giveUpMs: number;
  /** 0 for no limit. */
  readonly maxHoldMs: number;
}

export interface ProcessPlan {
  readonly id: string;
  readonly seed: number;
  readonly startMs: number;
  /** Of its clocks, in parts per million against the time of the world. */
  readonly driftPpm: number;
  readonly wallMs: number;
  readonly quarantine: boolean;
  /** So many leases that nobody else wants it holds beside, all the time. */
  readonly sides: number;
  readonly steps: readonly Step[];
}

/** Without any peculiarity. */
export const PLAINLY = { isStubborn: false, isDelegated: false, giveUpMs: 0, maxHoldMs: 0 } as const;

/** Somebody who writes all the time, beyond the end of a lease that is not extended. */
export function busy(process: ProcessPlan, resource: string, ttlMs: number): ProcessPlan {
  const holdMs = ttlMs / 20;
  const always = { kind: 'run', afterMs: 0, thinkMs: 1, commitMs: 0 } as const;
  const step: Step = {
    ...PLAINLY,
    ...always,
    isStubborn: true,
    id: `${process.id}.0`,
    resource,
    waitMs: 2 * ttlMs,
    writes: 40,
    holdMs,
  };
  return { ...process, startMs: 0, steps: [step, ...process.steps.slice(1)] };
}

/** Somebody who asks again and again and never waits. */
export function eager(process: ProcessPlan, resource: string, ttlMs: number): ProcessPlan {
  const always = { ...PLAINLY, kind: 'try', writes: 1, thinkMs: 1, holdMs: 0, commitMs: 0, waitMs: 0 } as const;
  const steps = Array.from({ length: 12 }, (_, index): Step => {
    return { ...always, id: `${process.id}.${index}`, resource, afterMs: ttlMs / 20 };
  });
  return { ...process, startMs: 0, steps };
}

/** Somebody who comes back at once, and stays long enough to extend what it has. */
export function frequent(process: ProcessPlan, resource: string, ttlMs: number): ProcessPlan {
  const always = { ...PLAINLY, kind: 'run', writes: 2, thinkMs: 1, commitMs: 0 } as const;
  const steps = Array.from({ length: 8 }, (_, index): Step => {
    return { ...always, id: `${process.id}.${index}`, resource, afterMs: 1, waitMs: ttlMs, holdMs: 0.3 * ttlMs };
  });
  return { ...process, startMs: 0, steps };
}

/** Somebody who comes back at once and is soon done, but for one time in five: then it writes beyond the end of its lease. */
export function returning(process: ProcessPlan, resource: string, ttlMs: number): ProcessPlan {
  const always = { ...PLAINLY, kind: 'run', thinkMs: 1, commitMs: 0, waitMs: 2 * ttlMs } as const;
  const steps = Array.from({ length: 15 }, (_, index): Step => {
    const afterMs = ttlMs / (index % 5 === 4 ? 4 : 40);
    const isLong = index % 5 === 2;
    const times = isLong ? { writes: 13, holdMs: ttlMs / 10 } : { writes: 1, holdMs: ttlMs / 50 };
    return { ...always, ...times, isStubborn: isLong, id: `${process.id}.${index}`, resource, afterMs };
  });
  return { ...process, startMs: 0, steps };
}

/** Somebody who wants it once, for as long as it takes. */
export function patient(process: ProcessPlan, resource: string, ttlMs: number): ProcessPlan {
  const once = { ...PLAINLY, kind: 'run', writes: 1, thinkMs: 1, commitMs: 0, holdMs: 0 } as const;
  const step: Step = { ...once, id: `${process.id}.0`, resource, afterMs: ttlMs / 20, waitMs: 20 * ttlMs };
  return { ...process, startMs: 0, steps: [step] };
}
