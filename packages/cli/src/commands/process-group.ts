import { readdirSync, readFileSync } from 'node:fs';

/** A command and what it has started, as long as that stays in its group. */
export class ProcessGroup {
  readonly #leader: number;

  constructor(leader: number) {
    this.#leader = leader;
  }

  signal(signal: NodeJS.Signals): void {
    try {
      process.kill(-this.#leader, signal);
    } catch {
      // Nobody is left.
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
