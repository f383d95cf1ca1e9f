import { readdirSync, readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';

const LOOK_MS = 20;
/** The kernel may need a moment. */
const KILL_MS = 1000;

/** A process that leads a group, and what it has started, as long as that stays in the group. */
export class ProcessGroup {
  readonly #leader: number;
  readonly #exit: Promise<unknown>;
  #isOver = false;

  /** `exit` resolves when the leader has ended. */
  constructor(leader: number, exit: Promise<unknown>) {
    this.#leader = leader;
    this.#exit = exit.then(() => (this.#isOver = true));
  }

  signal(signal: NodeJS.Signals): void {
    try {
      process.kill(-this.#leader, signal);
    } catch {
      // Nobody is left.
    }
  }

  /** SIGTERM, and SIGKILL for whoever is left after `killAfterMs`. Resolves when the leader has ended and nobody is left. */
  async terminate(killAfterMs: number): Promise<void> {
    this.signal('SIGTERM');
    await this.#over(killAfterMs);
    // A number that is no longer in use may be somebody else's soon.
    if (!this.#isOver || this.isAlive()) this.signal('SIGKILL');
    await this.#exit;
    await this.#over(KILL_MS);
  }

  /** Until the leader has ended and nobody is left, or the time is over. */
  async #over(timeoutMs: number): Promise<void> {
    const deadline = performance.now() + timeoutMs;
    for (let leftMs = timeoutMs; leftMs > 0 && (!this.#isOver || this.isAlive());) {
      await sleep(Math.min(LOOK_MS, leftMs));
      leftMs = deadline - performance.now();
    }
  }

  /** Whether one of them can still do something. */
  isAlive(): boolean {
    try {
      process.kill(-this.#leader, 0);
    } catch (error) {
      // Somebody is there who became another user.
      return (error as NodeJS.ErrnoException).code === 'EPERM';
    }
    return this.#hasLiving();
  }

  /**
   * The first process of a container often takes no note of the dead: they stay, and can be signalled, for as long as it
   * lives. Only where there is /proc this can be told.
   */
  #hasLiving(): boolean {
    let pids: readonly string[];
    try {
      pids = readdirSync('/proc').filter((name) => /^\d+$/.test(name));
    } catch {
      return true;
    }
    return pids.length === 0 || pids.some((pid) => this.#isLivingMember(pid));
  }

  #isLivingMember(pid: string): boolean {
    try {
      // The command, field 2, may contain spaces and parentheses.
      const [state, , group] = readFileSync(`/proc/${pid}/stat`, 'utf8')
        .replace(/^.*\) /s, '')
        .split(' ');
      return Number(group) === this.#leader && state !== 'Z' && state !== 'X';
    } catch {
      return false;
    }
  }
}
