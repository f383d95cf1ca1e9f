/**
 * Metrics of a manager for Prometheus, by prom-client (a peer dependency). `@leasehold/core/prometheus`.
 *
 * Owner and token are no labels: their number has no bound. They are in the logs, in the events, and in the exemplars of
 * what should never happen (a lost lease, a stale write), which a registry of the OpenMetrics type shows.
 */

import {
  Counter,
  Gauge,
  Histogram,
  register as defaultRegister,
  Registry,
  type OpenMetricsContentType,
} from 'prom-client';
import { z } from 'zod';

import { ConfigError } from '../errors.ts';
import type { LeaseEvent, ManagerEvents } from '../events.ts';
import type { LeaseManager } from '../lease/manager.ts';
import { parseOptions } from '../options.ts';
import { Classes, classOf } from './classes.ts';

// Seconds. A round trip on loopback takes 0.2 ms; a call is given up after seconds.
const OPERATION_BUCKETS = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5];
const WAIT_BUCKETS = [0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60, 300];
// Jobs are as short as a write and as long as a night.
const HOLD_BUCKETS = [0.01, 0.05, 0.1, 0.5, 1, 5, 15, 60, 300, 1800, 7200];

export interface LeaseMetricsOptions {
  /** Where they are registered. Default: prom-client's own. */
  readonly register?: Registry | Registry<OpenMetricsContentType> | undefined;
  /** Before each name, of letters, digits, `_` and `:`; at most 64. Default `leasehold_`. */
  readonly prefix?: string | undefined;
  /** The label `class` of a resource. Default: what stands before its first `:`. At most 100 values, the rest is `other`. */
  readonly resourceLabel?: ((resource: string) => string) | undefined;
}

const optionsSchema: z.ZodType<LeaseMetricsOptions> = z.strictObject({
  register: z
    .custom<Registry>(
      (value) => typeof (value as Registry | null)?.registerMetric === 'function',
      'must be a registry of prom-client',
    )
    .optional(),
  // Without the default name behind it nothing may begin with a digit.
  prefix: z
    .string('must be a text')
    .max(64, 'must be at most 64 characters')
    .regex(/^([a-zA-Z_:][a-zA-Z0-9_:]*)?$/, 'must be of letters, digits, _ and :, and not begin with a digit')
    .optional(),
  resourceLabel: z
    .custom<(resource: string) => string>((value) => typeof value === 'function', 'must be a function')
    .optional(),
});

/**
 * Collects the metrics of a manager until the returned function is called, which also removes them from the registry.
 * Managers that share a registry need a `prefix` each, or a registry each: prom-client refuses a name twice.
 *
 * @throws ConfigError an option is wrong, or the registry has one of the names already; nothing is registered then
 */
export function collectLeaseMetrics(manager: LeaseManager, options: LeaseMetricsOptions = {}): () => void {
  const metrics = new LeaseMetrics(manager, parseOptions(optionsSchema, options));
  return () => metrics.end();
}

type Listeners = { readonly [K in keyof ManagerEvents]?: (payload: ManagerEvents[K][0]) => void };

class LeaseMetrics {
  readonly #manager: LeaseManager;
  readonly #registry: Registry;
  readonly #prefix: string;
  readonly #classes: Classes;
  readonly #names: string[] = [];
  readonly #listeners: Listeners;

  constructor(manager: LeaseManager, options: LeaseMetricsOptions) {
    const { register = defaultRegister, prefix = 'leasehold_', resourceLabel = classOf } = options;
    this.#manager = manager;
    this.#registry = register as Registry;
    this.#prefix = prefix;
    this.#classes = new Classes(resourceLabel);
    try {
      this.#listeners = this.#makeListeners();
      this.#makeGauges();
      this.#makeVitals();
    } catch (error) {
      // What was registered before it would stay for ever, and be of nobody.
      this.#remove();
      throw error;
    }
    for (const [event, listener] of Object.entries(this.#listeners)) {
      manager.on(event as keyof ManagerEvents, listener);
    }
  }

  end(): void {
    for (const [event, listener] of Object.entries(this.#listeners)) {
      this.#manager.off(event as keyof ManagerEvents, listener);
    }
    this.#remove();
  }

  #remove(): void {
    for (const name of this.#names) this.#registry.removeSingleMetric(name);
  }

  #makeListeners(): Listeners {
    const operations = this.#counter('operations_total', 'Operations on leases, by outcome.', 'operation', 'outcome');
    const durations = this.#histogram(
      'operation_duration_seconds',
      'Round trips to the store.',
      OPERATION_BUCKETS,
      'operation',
    );
    const waits = this.#histogram('wait_seconds', 'From asking for a lease to having it.', WAIT_BUCKETS, 'class');
    const holds = this.#histogram('hold_seconds', 'From having a lease to its release.', HOLD_BUCKETS, 'class');
    const lost = this.#counterWithExemplars('lost_total', 'Leases that were lost.', 'class', 'reason');
    const stale = this.#counterWithExemplars('stale_writes_total', 'What a fence refused as stale.', 'fence');
    const cancelled = this.#counter('cancelled_total', 'Runs that were asked to end, lease still held.', 'reason');
    const up = this.#gauge('store_up', 'Whether the last question to the store was answered.');
    up.set(1);
    // There from the first scrape on, so that a rate can be taken of the first one that happens.
    for (const [operation, outcome] of [
      ['expire', 'lost'],
      ['reject', 'stale'],
      ['force_release', 'released'],
    ] as const) {
      operations.inc({ operation, outcome }, 0);
    }
    return {
      operation: ({ operation, outcome, leases, durationMs }) => {
        operations.inc({ operation, outcome }, leases);
        durations.observe({ operation }, durationMs / 1000);
        up.set(outcome === 'failed' ? 0 : 1);
      },
      acquired: ({ resource, waitedMs }) => waits.observe({ class: this.#classes.label(resource) }, waitedMs / 1000),
      released: ({ resource, heldMs }) => holds.observe({ class: this.#classes.label(resource) }, heldMs / 1000),
      cancelled: ({ reason }) => cancelled.inc({ reason }),
      lost: (event) => {
        const { reason } = event.error;
        lost({ class: this.#classes.label(event.resource), reason }, event);
        if (reason === 'expired' || reason === 'store-unreachable' || reason === 'clock-step') {
          operations.inc({ operation: 'expire', outcome: 'lost' });
        }
      },
      forceReleased: ({ outcome }) => operations.inc({ operation: 'force_release', outcome }),
      rejected: (event) => {
        stale({ fence: event.error.fence }, event);
        operations.inc({ operation: 'reject', outcome: 'stale' });
      },
    };
  }

  /** Read off the manager when they are asked for: no event that was missed can make them wrong. */
  #makeGauges(): void {
    const manager = this.#manager;
    const classes = this.#classes;
    const each = (gauge: Gauge<'class'>, isHeld: boolean): void => {
      // To look at a lease may find it lost, and a listener to that may ask for the gauge, too.
      const leases = manager.held();
      gauge.reset();
      for (const { resource, held } of leases) {
        if (held === isHeld) gauge.inc({ class: classes.label(resource) });
      }
    };
    this.#gaugeOf('held', 'Leases that are held.', ['class'], (gauge) => each(gauge, true));
    this.#gaugeOf('zombies', 'Bodies that run although their lease is lost.', ['class'], (gauge) => each(gauge, false));
    this.#gaugeOf('waiting', 'Acquisitions that wait.', [], (gauge) => gauge.set(manager.waiting));
    const worst = (of: (lease: ReturnType<LeaseManager['held']>[number]) => number): number =>
      manager
        .held()
        .filter(({ held }) => held)
        .reduce((most, lease) => Math.max(most, of(lease)), 0);
    this.#gaugeOf(
      'last_extension_age_ratio',
      'Time since the last confirmation of a lease as a part of its refresh interval, the largest of those held.',
      [],
      (gauge) => gauge.set(worst(({ extensionAgeMs, refreshMs }) => extensionAgeMs / refreshMs)),
    );
    this.#gaugeOf(
      'ttl_refresh_ratio',
      'The ttl of a lease as a multiple of its refresh interval, the largest of those held; 0 if none is.',
      [],
      (gauge) => gauge.set(worst(({ ttlMs, refreshMs }) => ttlMs / refreshMs)),
    );
  }

  /** What the process measured of itself. The worst since it started: what a scrape would otherwise miss. */
  #makeVitals(): void {
    const manager = this.#manager;
    const gauge = (name: string, help: string, read: () => number | null): void =>
      this.#gaugeOf(name, help, [], (each) => {
        const value = read();
        // No sample is not known; 0 would be a figure.
        if (value === null) each.remove();
        else each.set(value);
      });
    const worst = (name: string, help: string, part: 'Pause' | 'ClockStep' | 'Suspend' | 'RoundTrip'): void =>
      gauge(`worst_${name}_seconds`, `${help}, since the start.`, () => manager.vitals()[`worst${part}Ms`] / 1000);
    worst('pause', 'The longest that the event loop stood still while leases were held', 'Pause');
    worst('clock_step', 'The largest step of the wall clock, either way, while leases were held', 'ClockStep');
    worst('suspend', 'The longest that the machine was suspended while leases were held', 'Suspend');
    worst('round_trip', 'The longest answered round trip of an extension', 'RoundTrip');
    gauge(
      'worst_extension_ratio',
      'The longest time between two confirmations of a lease as a part of its ttl, since the start.',
      () => manager.vitals().worstExtensionRatio,
    );
    gauge(
      'clock_offset_seconds',
      "This host's wall clock minus the store's, by the extensions of the last ten minutes; no sample without any.",
      () => seconds(manager.vitals().clockOffsetMs),
    );
    gauge('ttl_seconds', 'The ttl of leases, as configured.', () => manager.adviseTiming().ttlMs / 1000);
    gauge(
      'shortest_safe_ttl_seconds',
      'The shortest ttl that has room for twice the worst that was measured.',
      () => manager.adviseTiming().shortestTtlMs / 1000,
    );
  }

  /** At most 128 characters in all, by the OpenMetrics standard. */
  #exemplar({ leaseId, fencingToken }: LeaseEvent): Record<string, string> {
    return {
      fence: String(fencingToken),
      lease_id: leaseId.slice(0, 32),
      owner: this.#manager.owner.name.slice(0, 40),
    };
  }

  #counter<L extends string>(name: string, help: string, ...labelNames: L[]): Counter<L> {
    return new Counter({ ...this.#called(name), help, labelNames });
  }

  /** A counter whose last event can be looked up, where the registry can show that. */
  #counterWithExemplars<L extends string>(
    name: string,
    help: string,
    ...labelNames: L[]
  ): (labels: Record<L, string>, event: LeaseEvent) => void {
    const enableExemplars = (this.#registry.contentType as string) === Registry.OPENMETRICS_CONTENT_TYPE;
    const counter: Counter<L> = new Counter({ ...this.#called(name), help, labelNames, enableExemplars });
    return (labels, event) =>
      enableExemplars
        ? counter.inc({ labels, value: 1, exemplarLabels: this.#exemplar(event) as Partial<Record<L, string>> })
        : counter.inc(labels);
  }

  #histogram<L extends string>(name: string, help: string, buckets: number[], ...labelNames: L[]): Histogram<L> {
    return new Histogram({ ...this.#called(name), help, buckets, labelNames });
  }

  #gauge(name: string, help: string): Gauge {
    return new Gauge({ ...this.#called(name), help });
  }

  #gaugeOf<L extends string>(name: string, help: string, labelNames: L[], read: (gauge: Gauge<L>) => void): void {
    const gauge: Gauge<L> = new Gauge({
      ...this.#called(name),
      help,
      labelNames,
      collect: () => read(gauge),
    });
  }

  #called(name: string): { name: string; registers: Registry[] } {
    const full = `${this.#prefix}${name}`;
    if (this.#registry.getSingleMetric(full) !== undefined) {
      const rule = `the registry has a metric ${full} already; give each manager a prefix of its own, or a registry`;
      throw new ConfigError('prefix', rule);
    }
    this.#names.push(full);
    return { name: full, registers: [this.#registry] };
  }
}

function seconds(ms: number | null): number | null {
  return ms === null ? null : ms / 1000;
}
