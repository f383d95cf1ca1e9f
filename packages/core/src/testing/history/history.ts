/**
 * What happened in a run, as plain data that survives JSON: what each process did and was told, and, from the protected
 * resource and the store themselves, what they let happen. The checker (`check.ts`) judges it; it does not matter whether
 * a simulator, a test or real processes wrote it.
 *
 * All times are milliseconds on one clock that every writer shares: CLOCK_MONOTONIC of one machine, or the time of a
 * simulation. They are compared with each other only.
 */

/** What a process does, and what its manager tells it. */
export type Act =
  // Calls to the store: `invoke` when they are sent, then one completion at most.
  | 'acquire'
  | 'adopt'
  | 'extend'
  | 'release'
  | 'cancel'
  | 'revoke'
  | 'force'
  // Calls to a fence, and reads of what it protects.
  | 'activate'
  | 'write'
  | 'seal'
  | 'read'
  // What the manager says of a lease; always `ok`.
  | 'acquired'
  | 'extended'
  | 'cancelled'
  | 'lost'
  | 'released'
  | 'handed-over'
  // The owner hears that somebody asked for what it has; always `ok`.
  | 'wanted'
  // Somebody wants a resource: from the question to a lease or a refusal.
  | 'want'
  // The body of a tick begins; always `ok`.
  | 'run'
  // The body of a run is at work: from its beginning until it has settled.
  | 'body'
  | 'diagnose'
  // A fault: `invoke` when it begins, `ok` when it is over.
  | 'nemesis'
  // The process ended, or was killed. It does nothing afterwards.
  | 'died';

/** `info`: the outcome is not known; it may have taken effect, now or later, even after the process died. */
export type Phase = 'invoke' | 'ok' | 'fail' | 'info';

/**
 * The faults that the rules know; others may have any name. `pause`: the target did nothing in the meantime.
 * `frozen-clocks`: nor did any of its clocks go on, as in a virtual machine that is paused. `data-loss`: of
 * the store, all (`outcome: 'all'`) or a part; `restart`: its server began anew. `store-clock`: it was stepped; `store-clock-back` says that it was, or may have been, behind an
 * instant that it had shown. `duplication`: requests to the store came more than once, and at any time. `unsafe-force`: a release by force without a seal, or of an owner that lives.
 */
export type KnownNemesis =
  | 'pause'
  | 'frozen-clocks'
  | 'kill'
  | 'data-loss'
  | 'restart'
  | 'store-clock'
  | 'store-clock-back'
  | 'duplication'
  | 'unsafe-force';

/** One line of a process. What does not apply is left out. */
export interface HistoryLine {
  readonly atMs: number;
  /** Counts up in each process: the order of lines of one instant. */
  readonly seq: number;
  /** One life of one process: another name after a restart. */
  readonly process: string;
  readonly act: Act;
  readonly phase: Phase;
  /** The same in the lines of one call, and in no other line of the process. */
  readonly call?: number | undefined;
  /** The qualified name. */
  readonly resource?: string | undefined;
  readonly leaseId?: string | undefined;
  readonly fencingToken?: number | undefined;
  /** Of the answer to an `acquire`: so many tokens above `fencingToken` are reserved for those who have it next in the process. */
  readonly spareTokens?: number | undefined;
  readonly ttlMs?: number | undefined;
  /** By the store's answer. Milliseconds. */
  readonly remainingMs?: number | undefined;
  /** Of a completion: when the request that it answers was sent, if later than `invoke`. */
  readonly sentMs?: number | undefined;
  /** Of `write`: when it was about to be checked that the lease is held, if earlier than this line. */
  readonly checkedMs?: number | undefined;
  /** Of `invoke`: the call was to have settled after so long. Milliseconds. */
  readonly timeoutMs?: number | undefined;
  /**
   * The store's or the manager's word: a verdict, the kind of an answer, a reason, the code of an error. Of the `invoke` of a
   * `release` or `cancel`: what the work came to, as the store is told.
   */
  readonly outcome?: string | undefined;
  /** Of `run`: the job, its tick (epoch ms), and how often one that did not end well may be run again. */
  readonly job?: string | undefined;
  readonly tickAt?: number | undefined;
  readonly retries?: number | undefined;
  /** Of `adopt`: the leaseId that was handed over. Of `acquire`: the one of its own in whose place it is asked for. */
  readonly from?: string | undefined;
  /** Of `acquire`: what is to become of it if it cannot be had at once, and, of `wait`, how often it is asked for again. */
  readonly mode?: 'try' | 'wait' | 'park' | undefined;
  readonly waitRefreshMs?: number | undefined;
  /** Of `acquire`: for so long nothing is to be granted if nothing is known of the resource. */
  readonly quarantineMs?: number | undefined;
  /** Of the end of a `want`: the lease that it came to is to be held no longer. */
  readonly maxHoldMs?: number | undefined;
  /** Of `want`: the manager's option `quarantine` is set. */
  readonly careful?: boolean | undefined;
  /** Of a call to a fence: its name. */
  readonly fence?: string | undefined;
  readonly writeId?: string | undefined;
  /** Of `read` the version found, of `write` the one that it goes by. */
  readonly version?: number | undefined;
  /** Of `write` by a bare grant: no lease of this process stands behind it, so only the fence can judge it. */
  readonly delegated?: boolean | undefined;
  /** Of `nemesis`. */
  readonly nemesis?: KnownNemesis | (string & {}) | undefined;
  /** Of `nemesis`: the process that it strikes. With a `resource` it struck that one alone. */
  readonly target?: string | undefined;
  /** Of the end of a `nemesis`: how often it had its effect (packets dropped, milliseconds stopped, …). */
  readonly effect?: number | undefined;
}

/** What a fence did with one operation, in the order in which it did it. */
export interface FenceRow {
  readonly order: number;
  readonly atMs: number;
  readonly fence: string;
  readonly resource: string;
  readonly act: 'activate' | 'write' | 'seal';
  /** Null for a seal. */
  readonly leaseId: string | null;
  readonly fencingToken: number;
  readonly accepted: boolean;
  /** Of a refusal: the highest admitted, as the fence says. */
  readonly highest?: { readonly fencingToken: number; readonly leaseId: string | null } | undefined;
  readonly writeId?: string | undefined;
  /** The version of the data before and after an accepted write. */
  readonly before?: number | undefined;
  readonly after?: number | undefined;
}

/** A lease that the store gave out: not one that it answered again. */
export interface GrantRow {
  readonly order: number;
  readonly atMs: number;
  readonly resource: string;
  readonly leaseId: string;
  readonly fencingToken: number;
  /** So many above it are its own as well. */
  readonly spareTokens?: number | undefined;
}

export interface History {
  readonly lines: readonly HistoryLine[];
  readonly fences: readonly FenceRow[];
  /** Empty where the store cannot be watched; then what needs it is not judged. */
  readonly grants: readonly GrantRow[];
  /** When it was over. Leases that may still be trusted then need no end. */
  readonly endMs: number;
}
