import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { ConfigError } from '@leasehold/core';
import { describe, expect, test } from 'vitest';

import { Leased, LeasedCron } from '../src/index.ts';
import type * as Decorated from './fixtures/decorated.ts';
import { Bench, quiet } from './support/bench.ts';

const modes = ['standard', 'legacy'] as const;
type Mode = (typeof modes)[number];

const require = createRequire(import.meta.url);
/** The compiler of tsx. What runs the tests only takes types away. */
const { transform } = createRequire(require.resolve('tsx'))('esbuild') as {
  transform(source: string, options: object): Promise<{ readonly code: string }>;
};

async function compiled(source: string, mode: Mode): Promise<unknown> {
  const compilerOptions = { experimentalDecorators: mode === 'legacy' };
  const { code } = await transform(source, { loader: 'ts', target: 'es2022', tsconfigRaw: { compilerOptions } });
  return import(`data:text/javascript,${encodeURIComponent(code)}`);
}

const source = await readFile(new URL('./fixtures/decorated.ts', import.meta.url), 'utf8');
const decorated = Object.fromEntries(
  await Promise.all(modes.map(async (mode) => [mode, await compiled(source, mode)])),
) as Record<Mode, typeof Decorated>;

const bench = new Bench();
const decorators = { Leased, LeasedCron };
const config = (option: string, message: string | RegExp): unknown =>
  expect.objectContaining({ code: 'CONFIG', option, message: expect.stringMatching(message) as unknown });

/** What it throws at once: a rejection is none. */
function thrown(work: () => unknown): unknown {
  try {
    work();
  } catch (error) {
    return error;
  }
  return 'nothing';
}

describe.each(modes)('decorators in %s mode', (mode) => {
  const { classes, replaced } = decorated[mode];

  test('only mark: a method with @LeasedCron is the same method, and nothing is asked of anybody', async () => {
    const { Reports } = classes(decorators);
    const reports = new Reports('me');
    expect(await reports.nightly()).toBe('me');
    await bench.pass(3000);
    expect(reports.seen).toEqual([['nightly', undefined]]);
    expect(Reports.prototype.nightly).toHaveProperty('name', 'nightly');
    expect([Reports.prototype.pay.name, Reports.prototype.pay.length]).toEqual(['pay', 1]);
  });

  test('register schedules every method that is marked, with its object, once per tick in a fleet', async () => {
    const { Reports } = classes(decorators);
    const fleet = [new Reports('a'), new Reports('b')];
    const tasks = fleet.flatMap((reports) => bench.process().cron.register(reports));
    expect(tasks.map(({ name }) => name)).toEqual(['nightly', 'local', 'nightly', 'local']);
    await bench.pass(3000);
    const seen = fleet.flatMap((reports) => reports.seen);
    for (const method of ['nightly', 'local']) {
      const tokens = seen.filter(([name]) => name === method).map(([, token]) => token);
      expect(new Set(tokens).size).toBe(3);
      expect(tokens).toHaveLength(3);
      expect(tokens).not.toContain(undefined);
    }
    const values = tasks.map((task) => task.lastRun()?.result).filter((value) => value !== undefined);
    expect(['a', 'b']).toEqual(expect.arrayContaining(values));
  });

  test('a method with @Leased never runs before its object is registered: it throws at once', async () => {
    const { Paying } = classes(decorators);
    const paying = new Paying();
    const early = config('@Leased', /pay was called before its object was registered; call cron\.register/);
    expect(thrown(() => paying.pay())).toEqual(early);
    const { pay } = paying;
    bench.process().cron.register(paying);
    // Taken off its object it is the method of nobody.
    expect(thrown(() => pay.call(undefined as never))).toEqual(early);
    expect(thrown(() => new Paying().pay())).toEqual(early);
    expect(paying.runs).toBe(0);
    await paying.pay();
    expect(paying.runs).toBe(1);
  });

  test('calls of a method with @Leased run under its lease, once in a fleet, and a skip gives undefined', async () => {
    const { Reports } = classes(decorators);
    const fleet = [new Reports(), new Reports()];
    for (const reports of fleet)
      bench
        .process()
        .cron.register(reports)
        .forEach((task) => void task.stop());
    await bench.pass(500);
    for (let second = 0; second < 3; second++) {
      const called = Promise.all(fleet.map((reports) => reports.pay()));
      await bench.pass(1000);
      expect(await called).toEqual([undefined, undefined]);
    }
    const tokens = fleet.flatMap((reports) => reports.seen).map(([method, token]) => (method === 'pay' ? token : null));
    expect(tokens).toHaveLength(3);
    expect(new Set(tokens).size).toBe(3);
    expect(tokens.every((token) => typeof token === 'number')).toBe(true);
  });

  test('the error of a method with @Leased is the error of its call', async () => {
    const { Paying } = classes(decorators);
    const paying = new Paying();
    bench.process().cron.register(paying);
    paying.failure = new Error('no money');
    await expect(paying.pay()).rejects.toBe(paying.failure);
  });

  test('register does all or nothing', async () => {
    const { HalfWrong } = classes(decorators);
    const { cron } = bench.process();
    const wrong = new HalfWrong();
    const before = cron.getTasks().size;
    expect(() => cron.register(wrong)).toThrow(config('ttl', ''));
    expect(cron.getTasks().size).toBe(before);
    expect(thrown(() => wrong.second())).toEqual(config('@Leased', 'before its object was registered'));
    await bench.pass(2000);
    expect(wrong.runs).toBe(0);
    // Every name is free.
    for (const name of ['first', 'second', 'third', 'fourth']) cron.schedule('0 3 * * *', () => {}, { name });
  });

  test('an object is registered once, and each job has one object', async () => {
    const { Reports, Paying, TwiceNamed } = classes(decorators);
    const { cron } = bench.process();
    const other = bench.process();
    const reports = new Reports();
    cron.register(reports);
    const again = config('instance', "is registered already, with its job 'pay'");
    const taken = (name: string): unknown => config('name', `'${name}' is the name of another task here`);
    expect(thrown(() => cron.register(reports))).toEqual(again);
    expect(thrown(() => other.cron.register(reports))).toEqual(again);
    expect(thrown(() => cron.register(new Reports()))).toEqual(taken('pay'));
    expect(thrown(() => cron.register(new Paying()))).toEqual(taken('pay'));
    expect(thrown(() => cron.schedule('0 3 * * *', () => {}, { name: 'pay' }))).toEqual(taken('pay'));
    expect(thrown(() => cron.register(new TwiceNamed()))).toEqual(taken('same'));
    await bench.pass(1000);
    expect(reports.seen.map(([method]) => method).sort()).toEqual(['local', 'nightly']);
  });

  test('an object without a mark is refused, and so is what is no object', () => {
    const { Reports, Empty } = classes(decorators);
    const { cron } = bench.process();
    const refused = config('instance', 'has no method with @LeasedCron or @Leased');
    for (const instance of [new Empty(), {}, Reports, null, undefined, 'Reports', Object.create(null)]) {
      expect(thrown(() => cron.register(instance as object))).toEqual(refused);
    }
  });

  test('a method that overrides another counts with its own mark or with none', async () => {
    const { Derived } = classes(decorators);
    const { cron } = bench.process();
    const derived = new Derived();
    expect(cron.register(derived).map(({ name }) => name)).toEqual(['derived', 'local']);
    await derived.pay();
    await bench.pass(1000);
    expect(derived.seen.map(([method]) => method).sort()).toEqual(['derived', 'local', 'plain pay']);
    // The names of what was overridden are free.
    for (const name of ['nightly', 'pay']) cron.schedule('0 3 * * *', () => {}, { name });
  });

  test('what an override with @Leased calls of its base class does not run under two leases, nor without one', async () => {
    const { SuperPaying } = classes(decorators);
    const paying = new SuperPaying();
    bench.process().cron.register(paying);
    await expect(paying.pay()).rejects.toEqual(
      config('@Leased', 'pay was called by an object whose class overrides it'),
    );
    expect(paying.runs).toBe(0);
  });

  test.each(['LeasedCron', 'Leased'] as const)(
    '@%s says so when another decorator has replaced the method, and works above it',
    async (which) => {
      const { cron } = bench.process();
      const below = replaced(decorators, 'above', which);
      expect(thrown(() => cron.register(below))).toEqual(
        config(`@${which}`, `run was replaced .* put @${which} above`),
      );
      const above = replaced(decorators, 'below', which) as { run(): unknown; runs: number };
      cron.register(above);
      if (which === 'Leased') await above.run();
      await bench.pass(600);
      expect(above.runs).toBe(1);
    },
  );

  test('shutdown ends the methods with @Leased too: what runs is cancelled in time, and no call begins a run', async () => {
    const { Paying } = classes(decorators);
    const { cron } = bench.process();
    const paying = new Paying();
    cron.register(paying);
    const running = paying.waitForTheEnd();
    await bench.pass(0);
    expect(paying.runs).toBe(1);
    const shutdown = cron.shutdown(1000);
    const cancelled = expect(running).rejects.toMatchObject({ code: 'RUN_CANCELLED', reason: 'shutdown' });
    expect(await paying.pay()).toBeUndefined();
    await bench.pass(1000);
    await cancelled;
    await shutdown;
    expect(await paying.pay()).toBeUndefined();
    expect(paying.runs).toBe(1);
  });

  test.each(['LeasedCron', 'Leased'] as const)('plain JavaScript hears what @%s cannot be put on', async (which) => {
    const ours = which === 'Leased' ? Leased({ name: 'job' }) : LeasedCron('0 3 * * *', { name: 'job' });
    const misuses: Record<string, string | RegExp> = {
      'class Job { @ours static run() {} }': /run is static$/,
      'class Job { @ours run = () => {}; }': /run is a field$/,
      'class Job { @ours get run() { return () => {}; } }': /run is a getter/,
      'class Job { @ours set run(value) {} }': /run is a (getter or )?setter$/,
      '@ours class Job {}': /Job is a class$/,
      'class Job { @ours @ours run() {} }': `has @${which} already`,
      'class Job { @other @ours run() {} }': `has @${which} already`,
      'class Job { @ours @other run() {} }': `has @${which === 'Leased' ? 'LeasedCron' : 'Leased'} already`,
      ...(mode === 'standard'
        ? {
            'class Job { @ours #run() {} }': /#run is private$/,
            'class Job { @ours accessor run = 1; }': /run is an accessor$/,
            'class Job { @ours static run = 1; }': /run is a field$/,
          }
        : { 'class Job { run(@ours job) {} }': /run is a method with a decorated parameter$/ }),
    };
    const other = which === 'Leased' ? LeasedCron('0 3 * * *', { name: 'job' }) : Leased({ name: 'job' });
    for (const [code, message] of Object.entries(misuses)) {
      const { make } = (await compiled(`export function make(ours, other) { ${code} }`, mode)) as {
        make: (...decorators: unknown[]) => void;
      };
      const error = thrown(() => make(ours, other));
      expect(error, code).toBeInstanceOf(ConfigError);
      expect(error, code).toHaveProperty('message', expect.stringMatching(message));
    }
  });

  test('plain JavaScript hears that a decorator is called first, and with what', async () => {
    const { make } = (await compiled('export function make(ours) { class Job { @ours run() {} } }', mode)) as {
      make: (decorator: unknown) => void;
    };
    expect(thrown(() => make(Leased))).toEqual(config('@Leased', 'is to be called'));
    expect(thrown(() => make(LeasedCron))).toEqual(config('@LeasedCron', 'needs a cron expression'));
  });
});

test('the two modes meet in one object: each finds the marks of the other', () => {
  const { cron } = bench.process();
  const { Reports } = decorated.standard.classes(decorators);
  class Mixed extends Reports {
    hourly(): void {}
  }
  const descriptor = Object.getOwnPropertyDescriptor(Mixed.prototype, 'hourly') as TypedPropertyDescriptor<() => void>;
  LeasedCron('0 * * * *', { name: 'hourly', logger: quiet })(Mixed.prototype, 'hourly', descriptor);
  expect(cron.register(new Mixed()).map(({ name }) => name)).toEqual(['hourly', 'nightly', 'local']);
});
