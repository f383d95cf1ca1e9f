import { EventEmitter, once } from 'node:events';
import type { Queue } from 'bullmq';

import { Fleet, type FleetListener, type Replica } from './fleet.ts';
import type { Payment, Report, Setting } from './messages.ts';
import type { Entry, Timeline } from './timeline.ts';

type ReportOf<Type extends Report['type']> = Extract<Report, { readonly type: Type }>;

/** What is to happen to the first owner that is about to write this account. */
interface Plan {
  readonly fate: 'kill' | 'stop';
  readonly account: string;
}

/** What happened, for the closing table. */
export interface Facts {
  readonly payments: ReadonlyMap<string, Payment>;
  readonly done: ReadonlySet<string>;
  readonly killed: string | undefined;
  readonly stopped: { readonly name: string; readonly forMs: number } | undefined;
  readonly refusals: number;
  readonly staleWrites: number;
  readonly ticks: number;
  /** What must not have happened. */
  readonly faults: readonly string[];
}

/** No act takes longer than this, even on a slow machine. */
const PATIENCE_MS = 40_000;
const MIN_TICKS = 3;

/** Plays the acts: gives the processes work, kills one, stops one, and tells the timeline what it hears. */
export class Story implements FleetListener {
  readonly #timeline: Timeline;
  readonly #queue: Queue<Payment>;
  readonly #fleet: Fleet;
  readonly #changed = new EventEmitter();
  readonly #ready = new Set<string>();
  readonly #payments = new Map<string, Payment>();
  readonly #done = new Set<string>();
  readonly #waited = new Set<string>();
  /** What was last written to each account, by the highest token. */
  readonly #latest = new Map<string, ReportOf<'written'>>();
  readonly #faults: string[] = [];
  readonly #troubles: string[] = [];
  #plan: Plan | undefined;
  #victim: Replica | undefined;
  /** The account whose owner has just met its fate. */
  #orphan: string | undefined;
  #killed: string | undefined;
  #stopped: { readonly name: string; readonly forMs: number } | undefined;
  #refusals = 0;
  #staleWrites = 0;
  #ticks = 0;
  #isEnding = false;

  constructor(timeline: Timeline, queue: Queue<Payment>, setting: Omit<Setting, 'name'>) {
    this.#timeline = timeline;
    this.#queue = queue;
    this.#fleet = new Fleet(['A', 'B', 'C'], setting, this);
  }

  get facts(): Facts {
    return {
      payments: this.#payments,
      done: this.#done,
      killed: this.#killed,
      stopped: this.#stopped,
      refusals: this.#refusals,
      staleWrites: this.#staleWrites,
      ticks: this.#ticks,
      faults: this.#faults,
    };
  }

  /** What BullMQ and the rest complained about on the way. */
  get troubles(): readonly string[] {
    return this.#troubles;
  }

  async play(): Promise<void> {
    this.#timeline.add('starts three processes');
    await this.#until('three processes are ready', () => this.#ready.size === 3);
    const processes = this.#fleet.replicas.map(({ name, pid }) => `${name} (pid ${pid})`);
    this.#timeline.add(`${processes.join(', ')} are ready`);

    this.#timeline.act('1  Peace', 'Six jobs on three accounts: each account has one owner at a time.');
    await this.#pay(['ada', 10], ['bob', 20], ['cy', 30], ['ada', 40], ['bob', 50], ['cy', 60]);

    this.#timeline.act('2  An owner is killed in mid-job', 'Its lease runs out, and the job is delivered again.');
    this.#plan = { fate: 'kill', account: 'ada' };
    await this.#pay(['ada', 70], ['ada', 80], ['cy', 90]);

    this.#timeline.act(
      '3  An owner is stopped between its last check and its write',
      'The others take over and do all the work. Then it wakes up, and writes what it had in mind.',
    );
    this.#plan = { fate: 'stop', account: 'bob' };
    await this.#pay(['bob', 100], ['bob', 200]);
    this.#timeline.add('SIGCONT', { process: this.#victim?.name ?? '', tone: 'loud' });
    this.#victim?.signal('SIGCONT');
    await this.#until('the stopped process has tried to write', () => this.#refusals + this.#staleWrites > 0);
    await this.#until(`${MIN_TICKS} cron ticks have run`, () => this.#ticks >= MIN_TICKS);

    this.#isEnding = true;
    this.#fleet.sendAll({ type: 'end' });
    await this.#until('all processes have ended', () => this.#fleet.size === 0);
  }

  /** Ends what is left of the processes. */
  close(): void {
    this.#isEnding = true;
    this.#fleet.kill();
  }

  /** Ends the story, unless it has come to its end. */
  fail(fault: string): void {
    if (this.#isEnding) return;
    this.#faults.push(fault);
    this.#changed.emit('change');
  }

  heard(replica: Replica, report: Report): void {
    this.#note(replica, report);
    this.#changed.emit('change');
  }

  ended({ name }: Replica, { code, signal }: { readonly code: number | null; readonly signal: string | null }): void {
    const isExpected = this.#isEnding ? code === 0 : signal === 'SIGKILL' && name === this.#killed;
    if (!isExpected) this.#faults.push(`process ${name} ended by itself (${signal ?? `exit code ${code}`})`);
    this.#changed.emit('change');
  }

  /** Adds jobs and waits until all of them are done. */
  async #pay(...payments: readonly (readonly [account: string, amount: number])[]): Promise<void> {
    const ids = payments.map(([account, amount]) => {
      const id = `job-${this.#payments.size + 1}`;
      this.#payments.set(id, { account, amount });
      return id;
    });
    await this.#queue.addBulk(
      ids.map((jobId) => ({ name: 'pay', data: this.#payments.get(jobId) as Payment, opts: { jobId } })),
    );
    await this.#until(`${ids.join(', ')} are done`, () => ids.every((id) => this.#done.has(id)));
  }

  /** Looks whenever something was heard. A process that failed ends the story. */
  async #until(what: string, isSo: () => boolean): Promise<void> {
    const late = AbortSignal.timeout(PATIENCE_MS);
    while (!isSo()) {
      if (this.#faults.length > 0) throw new Error(`THE END: ${this.#faults.join('; ')}`);
      try {
        await once(this.#changed, 'change', { signal: late });
      } catch {
        throw new Error(`THE END: waited ${PATIENCE_MS / 1000} s in vain until ${what}`);
      }
    }
  }

  #note(replica: Replica, report: Report): void {
    const timeline = this.#timeline;
    const { name } = replica;
    const entry =
      'account' in report && 'token' in report
        ? { process: name, owns: report.account, token: report.token }
        : { process: name };
    switch (report.type) {
      case 'ready':
        this.#ready.add(name);
        return;
      case 'busy':
        // Asked again and again; once is enough here.
        if (this.#waited.has(report.job)) return;
        this.#waited.add(report.job);
        timeline.add(`${report.job} has to wait: ${report.account} belongs to ${report.holder.split(' ')[0]}`, {
          ...entry,
          tone: 'faint',
        });
        return;
      case 'read':
        timeline.add(
          `${this.#takesOver(report)}${report.job}: reads ${report.before.balance}, will add ${report.amount}`,
          entry,
        );
        return;
      case 'set':
        this.#answer(replica, report);
        return;
      case 'known':
        timeline.add(`${report.job}: was applied before, nothing to do`, entry);
        return;
      case 'stopping':
        this.#orphan = report.account;
        timeline.add(`${report.job}: checks its lease; before it writes: SIGSTOP`, { ...entry, tone: 'loud' });
        return;
      case 'woken': {
        this.#stopped = { name, forMs: report.stoppedMs };
        const said = report.wasHeld ? 'held' : 'lost';
        timeline.add(`wakes up after ${seconds(report.stoppedMs)}; its check said ${said}, so it writes`, entry);
        return;
      }
      case 'written':
        this.#written(replica, entry, report);
        return;
      case 'refused':
        this.#refusals++;
        timeline.add(`${report.job}: REFUSED by the fence, which has admitted ${timeline.short(report.highest)}`, {
          ...entry,
          tone: 'good',
        });
        return;
      case 'lost':
        timeline.add(`notices that its lease is lost (${report.reason})`, { ...entry, tone: 'faint' });
        return;
      case 'done':
        this.#done.add(report.job);
        return;
      case 'tick':
        this.#ticks++;
        timeline.add(`cron tick of ${report.tick.slice(11, 19)}`, {
          process: name,
          owns: 'report',
          token: report.token,
          tone: 'faint',
        });
        return;
      case 'trouble':
        this.#troubles.push(`${timeline.seconds.toFixed(2)} ${name} ${report.message}`);
        return;
    }
  }

  /** Lets an owner write, unless the plan has something else for it. */
  #answer(replica: Replica, { account, job, token }: ReportOf<'set'>): void {
    const plan = this.#plan;
    if (plan?.account !== account) {
      replica.send({ type: 'go', job, stopFirst: false });
      return;
    }
    this.#plan = undefined;
    if (plan.fate === 'kill') {
      this.#killed = replica.name;
      this.#orphan = account;
      this.#timeline.add('SIGKILL', { process: replica.name, owns: account, token, tone: 'loud' });
      replica.signal('SIGKILL');
    } else {
      this.#victim = replica;
      replica.send({ type: 'go', job, stopFirst: true });
    }
  }

  #takesOver({ account }: ReportOf<'read'>): string {
    if (this.#orphan !== account) return '';
    this.#orphan = undefined;
    return 'takes over; ';
  }

  #written(replica: Replica, entry: Entry, report: ReportOf<'written'>): void {
    const { account, job, token, after } = report;
    const latest = this.#latest.get(account);
    // Reports of two processes may come in another order than their writes; after a stop there is no doubt.
    const isStale = replica === this.#victim && this.#stopped !== undefined && token < (latest?.token ?? 0);
    if (latest === undefined || !isStale) {
      if (token >= (latest?.token ?? 0)) this.#latest.set(account, report);
      this.#timeline.add(`${job}: writes ${after.balance}`, entry);
      return;
    }
    this.#staleWrites++;
    const undone = latest.after.applied.filter((its) => !after.applied.includes(its));
    this.#timeline.add(`${job}: writes ${after.balance} OVER ${latest.after.balance}: ${undone.join(', ')} is undone`, {
      ...entry,
      tone: 'bad',
    });
  }
}

export function seconds(ms: number): string {
  return `${(ms / 1000).toFixed(1)} s`;
}
