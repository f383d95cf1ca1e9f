import type { FenceRow, GrantRow, History, HistoryLine } from '../../../src/testing/history/history.ts';

type Extra = Partial<HistoryLine>;

/** Its owner trusts it for 1 % and 50 ms less: 940 ms. */
export const TTL_MS = 1000;

/** Writes a history by hand: one method for each thing that happens, with its time first. */
export class Script {
  readonly lines: HistoryLine[] = [];
  readonly fences: FenceRow[] = [];
  readonly grants: GrantRow[] = [];
  endMs = 10_000;
  #seq = 0;
  #call = 0;
  #order = 0;
  #version = 0;

  line(atMs: number, process: string, act: HistoryLine['act'], phase: HistoryLine['phase'], extra: Extra = {}): this {
    this.lines.push({ atMs, seq: ++this.#seq, process, act, phase, ...extra });
    return this;
  }

  /** A call that takes 10 ms unless `endMs` says otherwise; with `endMs: null` it never settles. */
  call(
    atMs: number,
    process: string,
    act: HistoryLine['act'],
    invoke: Extra,
    end: Extra & { readonly phase?: HistoryLine['phase']; readonly endMs?: number | null } = {},
  ): this {
    const call = ++this.#call;
    const about = { call, resource: 'r', ...invoke };
    const { phase = 'ok', endMs = atMs + 10, ...more } = end;
    this.line(atMs, process, act, 'invoke', { timeoutMs: 500, ...about });
    if (endMs === null) return this;
    const { leaseId, fencingToken } = about;
    return this.line(endMs, process, act, phase, { call, resource: about.resource, leaseId, fencingToken, ...more });
  }

  granted(atMs: number, leaseId: string, fencingToken: number): this {
    this.grants.push({ order: ++this.#order, atMs, resource: 'r', leaseId, fencingToken });
    return this;
  }

  row(
    atMs: number,
    act: FenceRow['act'],
    leaseId: string | null,
    fencingToken: number,
    more: Partial<FenceRow> = {},
  ): this {
    this.fences.push({
      ...{ order: ++this.#order, atMs, fence: 'ledger', resource: 'r' },
      ...{ act, leaseId, fencingToken, accepted: true, ...more },
    });
    return this;
  }

  /** Acquired, and activated at the fence. */
  acquire(atMs: number, process: string, leaseId: string, fencingToken: number): this {
    return this.lease(atMs, process, leaseId, fencingToken).activate(atMs + 20, process, leaseId, fencingToken);
  }

  lease(atMs: number, process: string, leaseId: string, fencingToken: number): this {
    return this.granted(atMs + 5, leaseId, fencingToken)
      .call(atMs, process, 'acquire', { leaseId, ttlMs: TTL_MS }, { fencingToken, remainingMs: TTL_MS })
      .line(atMs + 10, process, 'acquired', 'ok', { resource: 'r', leaseId, fencingToken });
  }

  activate(atMs: number, process: string, leaseId: string, fencingToken: number): this {
    return this.call(atMs, process, 'activate', { leaseId, fencingToken }).row(
      atMs + 5,
      'activate',
      leaseId,
      fencingToken,
    );
  }

  extend(atMs: number, process: string, leaseId: string, end: Parameters<Script['call']>[4] = {}): this {
    return this.call(atMs, process, 'extend', { leaseId, ttlMs: TTL_MS }, { remainingMs: TTL_MS, ...end });
  }

  /** Reads nothing: goes by the version that the data has now. */
  write(atMs: number, process: string, leaseId: string, fencingToken: number, writeId: string): this {
    const before = this.#version++;
    return this.call(atMs, process, 'write', { leaseId, fencingToken, writeId, version: before }).row(
      atMs + 5,
      'write',
      leaseId,
      fencingToken,
      { writeId, before, after: before + 1 },
    );
  }

  /** Sent too late, and refused at `highest`. */
  refusedWrite(
    atMs: number,
    process: string,
    leaseId: string,
    fencingToken: number,
    highest: NonNullable<FenceRow['highest']>,
    extra: Extra = {},
  ): this {
    const writeId = `${leaseId}-late`;
    return this.call(atMs, process, 'write', { leaseId, fencingToken, writeId, ...extra }, { phase: 'fail' }).row(
      atMs + 5,
      'write',
      leaseId,
      fencingToken,
      { writeId, accepted: false, highest },
    );
  }

  release(atMs: number, process: string, leaseId: string): this {
    return this.call(atMs, process, 'release', { leaseId }, { outcome: 'released' }).line(
      atMs + 10,
      process,
      'released',
      'ok',
      { leaseId, resource: 'r' },
    );
  }

  lost(atMs: number, process: string, leaseId: string, outcome = 'expired'): this {
    return this.line(atMs, process, 'lost', 'ok', { leaseId, resource: 'r', outcome });
  }

  nemesis(fromMs: number, untilMs: number, nemesis: string, more: Extra = {}): this {
    return this.call(
      fromMs,
      'world',
      'nemesis',
      { nemesis, resource: undefined, timeoutMs: undefined, ...more },
      {
        endMs: untilMs,
        effect: 1,
        nemesis,
        ...more,
      },
    );
  }

  get history(): History {
    return { lines: this.lines, fences: this.fences, grants: this.grants, endMs: this.endMs };
  }
}

/** Two owners one after the other, as it should be. */
export function goodRun(): Script {
  return new Script()
    .acquire(0, 'a', 'L1', 100)
    .write(100, 'a', 'L1', 100, 'w1')
    .extend(300, 'a', 'L1')
    .write(400, 'a', 'L1', 100, 'w2')
    .release(500, 'a', 'L1')
    .acquire(600, 'b', 'L2', 200)
    .write(700, 'b', 'L2', 200, 'w3')
    .release(800, 'b', 'L2');
}
