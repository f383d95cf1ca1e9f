import { Gauge, Registry, type Metric } from 'prom-client';
import type { ForceReleaseResult } from '../../src/diagnosis/force-release.ts';
import { UnsafeReleaseError } from '../../src/errors.ts';
import type { LeaseEvent } from '../../src/events.ts';
import type { LeaseManager } from '../../src/lease/manager.ts';
import type { LeaseStore, StoreCall } from '../../src/store/store.ts';
import { collectLeaseMetrics } from '../../src/telemetry/prometheus.ts';
import type { Act, History, HistoryLine } from '../../src/testing/history/history.ts';
import type { Witness } from './witness.ts';

const OPERATIONS = ['acquire', 'adopt', 'extend', 'release', 'cancel'] as const;
type Operation = (typeof OPERATIONS)[number];

/** What a counter or a gauge may be at least and at most, by the history. */
interface Bounds {
  readonly least: number;
  readonly most: number;
}

/** Names of samples, labels in the order of their names, with their values. */
type Samples = Map<string, number>;

/** At the gauge of what is held, when something has just become of `leaseId`. */
interface Look {
  readonly process: string;
  readonly act: 'acquired' | 'lost';
  readonly leaseId: string;
  /** It is over, or was found to be over by that. */
  readonly isLost: boolean;
  readonly value: Promise<{ readonly values: readonly { readonly value: number }[] }>;
}

/** A registry for each manager of a run, and what the history says of it. */
export class MetricsWitness implements Witness {
  readonly #registries = new Map<string, Registry>();
  /** Calls that were refused before they were sent: of these a history has no line. By process and operation. */
  readonly #unsent: Samples = new Map();
  /** What releases by force came to for whoever asked for them. By process and outcome. */
  readonly #forced: Samples = new Map();
  readonly #looks: Look[] = [];
  readonly #change: (metric: Metric) => void;

  /** `change`: what is wrong with each metric, if something is to be. */
  constructor(change: (metric: Metric) => void = () => {}) {
    this.#change = change;
  }

  store(process: string, store: LeaseStore): LeaseStore {
    return new Proxy(store, {
      get: (target, name) => {
        const value: unknown = Reflect.get(target, name, target);
        const operation = OPERATIONS.find((each) => each === name);
        if (typeof value !== 'function') return value;
        const send = value.bind(target) as (request: unknown, call: StoreCall) => Promise<unknown>;
        if (operation === undefined) return send;
        return async (request: unknown, call: StoreCall) => {
          let isSent = false;
          const sent = (): void => {
            isSent = true;
            call.sent?.();
          };
          try {
            return await send(request, { ...call, sent });
          } catch (error) {
            if (!isSent) add(this.#unsent, `${process} ${operation}`, Array.isArray(request) ? request.length : 1);
            throw error;
          }
        };
      },
    });
  }

  manager(process: string, manager: LeaseManager): void {
    const register = new Registry();
    collectLeaseMetrics(manager, { register });
    for (const metric of metricsOf(register)) this.#change(metric);
    this.#registries.set(process, register);
    const look = (act: 'acquired' | 'lost', { leaseId }: LeaseEvent): void => {
      let isLost = act === 'lost';
      const lose = (event: LeaseEvent): void => void (isLost ||= event.leaseId === leaseId);
      manager.on('lost', lose);
      // What it is at this moment: it is read before the promise is there.
      const value = register.getSingleMetric('leasehold_held')?.get();
      manager.off('lost', lose);
      if (value !== undefined) this.#looks.push({ process, act, leaseId, isLost, value });
    };
    manager.on('acquired', (event) => look('acquired', event));
    manager.on('lost', (event) => look('lost', event));
  }

  forces(process: string, release: Promise<ForceReleaseResult>): void {
    const told = (outcome: string): void => add(this.#forced, `${process} ${outcome}`);
    release.then(
      ({ outcome }) => told(outcome),
      (error: unknown) => told(error instanceof UnsafeReleaseError ? 'refused' : 'failed'),
    );
  }

  /** A lease that has just been acquired is held, one that has just been lost is not, nor any that is known to be over. */
  async #held(process: string, lines: readonly HistoryLine[], wrong: string[]): Promise<void> {
    const lingering = spareTo(lines);
    for (const look of this.#looks) {
      if (look.process !== process) continue;
      const before = lines.findIndex(({ act, leaseId }) => act === look.act && leaseId === look.leaseId);
      const open = new Set<string | undefined>();
      for (const { act, phase, leaseId } of lines.slice(0, before + 1)) {
        if ((act === 'acquire' || act === 'adopt') && phase === 'ok') open.add(leaseId);
        if ((act === 'activate' || act === 'acquired') && lingering.has(leaseId)) open.add(leaseId);
        if (act === 'lost' || act === 'released' || act === 'handed-over' || act === 'release') open.delete(leaseId);
      }
      const least = look.isLost ? 0 : 1;
      const sum = (await look.value).values.reduce((total, { value }) => total + value, 0);
      if (!(sum >= least && sum <= open.size))
        wrong.push(
          `${process}: leasehold_held is ${sum}, not ${least} to ${open.size}, at ${look.act} of ${look.leaseId}`,
        );
    }
  }

  /** Everything in which the metrics of a manager are not what the history says. `seen`: the sums of what they say. */
  async disagreements(history: History, seen: Samples): Promise<readonly string[]> {
    const wrong: string[] = [];
    for (const [process, register] of this.#registries) {
      const lines = history.lines.filter((line) => line.process === process);
      const isOver = !lines.some(({ act, outcome }) => act === 'died' && outcome === 'killed');
      const told = await samplesOf(register, isOver);
      const unsent = (operation: Operation): number => this.#unsent.get(`${process} ${operation}`) ?? 0;
      const expected = new Map([
        ...operations(lines, unsent),
        ...events(lines),
        ...refusals(lines),
        ...forcedReleases(lines, history, (outcome) => this.#forced.get(`${process} ${outcome}`) ?? 0),
      ]);
      for (const name of new Set([...told.keys(), ...expected.keys()])) {
        const value = told.get(name) ?? 0;
        const { least, most } = expected.get(name) ?? { least: 0, most: 0 };
        add(seen, name, value);
        if (!(value >= least && value <= most)) wrong.push(`${process}: ${name} is ${value}, not ${least} to ${most}`);
      }
      await this.#held(process, lines, wrong);
      for (const [name, most] of limits(lines)) {
        const [metric = '', label = ''] = name.split(' ');
        let sum = 0;
        for (const [each, value] of told) if (each.startsWith(`${metric}{`) && each.includes(label)) sum += value;
        if (sum > most) wrong.push(`${process}: ${name} is ${sum}, more than ${most}`);
      }
    }
    return wrong;
  }
}

/**
 * A call that was answered counts by the kind of its answer; one that was not, or was never sent, counts as failed. A call
 * that was still under way when its process died counts nowhere.
 */
function operations(lines: readonly HistoryLine[], unsent: (operation: Operation) => number): Map<string, Bounds> {
  const counts: Samples = new Map();
  const calls: Samples = new Map();
  for (const { act, phase, outcome = '' } of lines) {
    const operation = OPERATIONS.find((each) => each === act);
    if (operation === undefined || phase === 'invoke') continue;
    add(counts, operationName(operation, kindOf(operation, phase, outcome)));
    add(calls, operation);
  }
  for (const operation of OPERATIONS) {
    if (unsent(operation) === 0) continue;
    add(counts, operationName(operation, 'failed'), unsent(operation));
    add(calls, operation, unsent(operation));
  }
  const bounds = new Map([...counts].map(([name, count]) => [name, exactly(count)]));
  for (const [operation, count] of calls) {
    // Extends go together: their lines are leases, and a round trip is of one lease at least.
    const least = operation === 'extend' ? 1 : count;
    bounds.set(`leasehold_operation_duration_seconds_count{operation=${operation}}`, { least, most: count });
  }
  return bounds;
}

function kindOf(operation: Operation, phase: HistoryLine['phase'], outcome: string): string {
  // A code, which is why there was no answer.
  if (/^[A-Z_]+$/.test(outcome)) return 'failed';
  if (operation === 'cancel') return outcome;
  if (phase === 'ok')
    return { acquire: 'granted', adopt: 'granted', extend: 'extended', release: 'released' }[operation];
  if (operation === 'release') return 'lost';
  if (['spent', 'cancelled', 'out-of-range', 'unknown', 'foreign'].includes(outcome)) return outcome;
  if (operation !== 'acquire') return outcome === 'revoked' && operation === 'extend' ? 'revoked' : 'lost';
  return ['held', 'turn', 'quarantine'].includes(outcome) ? 'busy' : 'tick';
}

function operationName(operation: string, outcome: string): string {
  return `leasehold_operations_total{operation=${operation},outcome=${outcome}}`;
}

/** What happens to leases counts once each time. */
function events(lines: readonly HistoryLine[]): Map<string, Bounds> {
  const counts: Samples = new Map();
  for (const { act, resource = '', outcome = '' } of lines) {
    const kind = resource.slice(resource.indexOf('/') + 1);
    if (act === 'acquired') add(counts, `leasehold_wait_seconds_count{class=${kind}}`);
    if (act === 'released') add(counts, `leasehold_hold_seconds_count{class=${kind}}`);
    if (act === 'cancelled') add(counts, `leasehold_cancelled_total{reason=${outcome}}`);
    if (act !== 'lost') continue;
    add(counts, `leasehold_lost_total{class=${kind},reason=${outcome}}`);
    if (['expired', 'store-unreachable', 'clock-step'].includes(outcome)) add(counts, operationName('expire', 'lost'));
  }
  return new Map([...counts].map(([name, count]) => [name, exactly(count)]));
}

/**
 * What a fence refused a lease of this manager counts, once. A refused write by a bare grant counts if the body of `run`
 * ends with it; otherwise nobody is told. So it is with an activation that had been given up when the refusal came, because
 * its owner was stopped before it was sent. A release by force tries the old token at the fence: that is nobody's write.
 */
function refusals(lines: readonly HistoryLine[]): Map<string, Bounds> {
  const own = grantedTo(lines);
  const refused = lines.filter(
    ({ act, outcome, leaseId }) =>
      (act === 'write' || act === 'activate') && outcome === 'STALE_TOKEN' && own.has(leaseId),
  );
  const delegated = new Set(
    lines.filter((line) => line.delegated === true && line.phase === 'invoke').map(({ call }) => call),
  );
  const isGivenUp = ({ act, leaseId, seq }: HistoryLine): boolean =>
    act === 'activate' &&
    lines.some(
      (line) => line.leaseId === leaseId && line.act === 'release' && line.phase === 'invoke' && line.seq < seq,
    );
  const least = refused.filter((line) => !delegated.has(line.call) && !isGivenUp(line)).length;
  const bounds = { least, most: refused.length };
  return new Map([
    ['leasehold_stale_writes_total{fence=ledger}', bounds],
    [operationName('reject', 'stale'), bounds],
  ]);
}

/**
 * Each release by force counts by what it came to for whoever asked. Where the store confirmed one, or may have done it
 * without an answer, it counts as released; one past the manager (the fault `unsafe-force`) counts nowhere.
 */
function forcedReleases(
  lines: readonly HistoryLine[],
  history: History,
  asked: (outcome: string) => number,
): Map<string, Bounds> {
  const ends = lines.filter(({ act, phase }) => act === 'force' && phase !== 'invoke');
  const past = history.lines.filter(({ nemesis, phase }) => nemesis === 'unsafe-force' && phase === 'invoke').length;
  const confirmed = ends.filter(({ phase }) => phase === 'ok').length;
  const unknown = ends.filter(({ phase }) => phase === 'info').length;
  const outcomes = ['released', 'declined', 'changed', 'refused', 'failed'] as const;
  const bounds = new Map(
    outcomes.map((outcome) => [operationName('force_release', outcome), exactly(asked(outcome))] as const),
  );
  const least = Math.max(asked('released'), confirmed - past);
  bounds.set(operationName('force_release', 'released'), {
    least,
    most: Math.min(asked('released'), confirmed + unknown),
  });
  return bounds;
}

/** The leases that the store gave this process, as far as it was told. */
function grantedTo(lines: readonly HistoryLine[]): Set<string | undefined> {
  const grants = lines.filter(({ act, phase }) => (act === 'acquire' || act === 'adopt') && phase === 'ok');
  return new Set(grants.map(({ leaseId }) => leaseId));
}

/** Those of them that may linger. */
function spareTo(lines: readonly HistoryLine[]): Set<string | undefined> {
  return new Set(lines.filter(({ spareTokens }) => spareTokens !== undefined).map(({ leaseId }) => leaseId));
}

/**
 * What must hold beside: a lease is acquired, lost, released and asked to end once by each who has it, after the store has
 * granted it; it is released only where the store confirmed that, or it lingers, and lost by the store's word or asked to
 * end by it only where that is what the store said.
 */
function limits(lines: readonly HistoryLine[]): Map<string, number> {
  const leases = (is: (line: HistoryLine) => boolean): number =>
    new Set(lines.filter(is).map(({ leaseId }) => leaseId)).size;
  const said = (word: string): number =>
    leases(
      ({ act, phase, outcome }) => (act === 'extend' || act === 'release') && phase === 'fail' && outcome === word,
    );
  const granted = grantedTo(lines);
  const once = (act: Act): number => {
    const told = lines.filter((line) => line.act === act && granted.has(line.leaseId));
    return new Set(told.map(({ leaseId, fencingToken }) => `${leaseId} ${fencingToken}`)).size;
  };
  const lingering = spareTo(lines);
  const sent = new Set<string | undefined>();
  let kept = 0;
  for (const { act, leaseId } of lines) {
    if (act === 'release') sent.add(leaseId);
    if (act === 'released' && lingering.has(leaseId) && !sent.has(leaseId)) kept++;
  }
  return new Map([
    ['leasehold_wait_seconds_count', once('acquired')],
    ['leasehold_lost_total', once('lost')],
    ['leasehold_cancelled_total', once('cancelled')],
    [
      'leasehold_hold_seconds_count',
      kept + leases(({ act, phase, outcome }) => act === 'release' && (phase === 'ok' || outcome === 'released')),
    ],
    ['leasehold_cancelled_total reason=revoked', said('revoked')],
    ['leasehold_lost_total reason=superseded', said('superseded')],
    ['leasehold_lost_total reason=missing', said('missing') + said('foreign')],
    ['leasehold_lost_total reason=force-released', said('force-released')],
  ]);
}

function metricsOf(register: Registry): Metric[] {
  return register.getMetricsAsArray().flatMap(({ name }) => register.getSingleMetric(name) ?? []);
}

/** Every metric has one; the types do not say so. */
export function nameOf(metric: Metric): string {
  return (metric as unknown as { readonly name: string }).name;
}

export function textOf(labels: object): string {
  // The same answer with and without a place in the queue; a history says only why.
  const of = (value: unknown): string => (value === 'queued' ? 'busy' : String(value));
  return Object.entries(labels)
    .map(([label, value]) => `${label}=${of(value)}`)
    .toSorted()
    .join(',');
}

/** The metrics that count, or that must be nothing in the end; `isOver`: the process came to its end by itself. */
async function samplesOf(register: Registry, isOver: boolean): Promise<Samples> {
  const samples: Samples = new Map();
  for (const metric of metricsOf(register)) {
    // A killed process answers no scrape: to read a gauge has the manager look at its clocks.
    const name = nameOf(metric);
    const isZero = isOver && /_(held|zombies|waiting)$/.test(name);
    if (metric instanceof Gauge && !isZero) continue;
    const { values } = await metric.get();
    for (const { value, labels, ...rest } of values) {
      const { metricName = name } = rest as { readonly metricName?: string };
      if (/_(bucket|sum)$/.test(metricName)) continue;
      add(samples, `${metricName}{${textOf(labels)}}`, value);
    }
  }
  return samples;
}

function exactly(count: number): Bounds {
  return { least: count, most: count };
}

function add(counts: Samples, name: string, by = 1): void {
  counts.set(name, (counts.get(name) ?? 0) + by);
}
