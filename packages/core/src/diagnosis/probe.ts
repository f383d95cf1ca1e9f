import type { OwnerIdentity } from '../owner.ts';

/**
 * What is known of an owner's process. `gone`: it has ended, verified (same machine, same boot and pid namespace, and no
 * process of that pid and start time; or an orchestrator that says so). `stopped`: it exists and cannot run (SIGSTOP, a
 * debugger, a frozen cgroup). `unverifiable`: nobody asked could tell. Never a guess.
 */
export type OwnerState = 'gone' | 'alive' | 'stopped' | 'unverifiable';

export interface OwnerFinding {
  readonly state: OwnerState;
  /** The probe that says so: `same-host`, `kubernetes`, `docker`, `systemd`, or the name of a custom one. */
  readonly probe: string;
  /** One sentence: what was seen. `no process 4121 on this host, same boot`. */
  readonly detail: string;
  /** What could make this answer misleading; empty if nothing known. */
  readonly caveat: string;
  /** Commands with which a person checks the same, filled in. */
  readonly byHand: readonly string[];
  /**
   * The command that ends the process, for this host: it looks first whether it is the same process still. SIGKILL for one
   * that is stopped, else SIGTERM. Undefined if there is none, or not on this host.
   */
  readonly endByHand?: string | undefined;
}

/** Answers whether an owner's process still exists. Reads only. */
export interface OwnerProbe {
  readonly name: string;
  /**
   * Undefined if this probe cannot say anything about such an owner (no pod, another machine). It ends when `signal`
   * aborts; whatever it rejects with counts as `unverifiable`.
   */
  probe(owner: OwnerIdentity, options: { readonly signal: AbortSignal }): Promise<OwnerFinding | undefined>;
}
