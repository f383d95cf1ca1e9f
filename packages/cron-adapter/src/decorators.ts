import { ConfigError } from '@leasehold/core';

import type { CronRun } from './cron-run.ts';
import { declare, mark, marksOf, type LeasedOptions, type Mark, type Method, type TriggeredMark } from './marks.ts';
import { copyMetadata } from './nest-metadata.ts';
import type { ScheduleOptions } from './options.ts';

/** The class's own object, not the class: a static method has no object to register. */
type NotStatic<Target> = Target extends abstract new (...args: never) => unknown ? never : Target;

/** A decorator for methods, of standard classes and of those compiled with `experimentalDecorators`. */
export interface LeasedCronDecorator {
  <This, Value extends (this: This, run: CronRun) => unknown>(
    method: Value,
    context: ClassMethodDecoratorContext<This, Value> & { readonly static: false; readonly private: false },
  ): void;
  <Target extends object, Value extends (run: CronRun) => unknown>(
    prototype: NotStatic<Target>,
    key: string | symbol,
    descriptor: TypedPropertyDescriptor<Value>,
  ): void;
}

/** As `LeasedCronDecorator`, for methods that give no value: a call that begins no run resolves with undefined. */
export interface LeasedDecorator {
  <This, Value extends (this: This, run: CronRun) => void | Promise<void>>(
    method: Value,
    context: ClassMethodDecoratorContext<This, Value> & { readonly static: false; readonly private: false },
  ): Value;
  <Target extends object, Value extends (run: CronRun) => void | Promise<void>>(
    prototype: NotStatic<Target>,
    key: string | symbol,
    descriptor: TypedPropertyDescriptor<Value>,
  ): TypedPropertyDescriptor<Value>;
}

/**
 * Marks a method for `cron.register(object)`, which schedules it as `cron.schedule(expression, method, options)` would. Until
 * then nothing happens, and the method itself stays as it is: a call of it is a plain call, without a lease.
 *
 * For methods of objects, with the run (`CronRun`) for their only parameter or none. Throws `ConfigError` for whatever else
 * it is put on. The expression and the options are checked by `register`.
 */
export function LeasedCron(expression: string, options: ScheduleOptions): LeasedCronDecorator {
  const decorator = '@LeasedCron';
  if (typeof expression !== 'string') {
    throw new ConfigError(decorator, 'needs a cron expression and options: @LeasedCron(expression, { name })');
  }
  return decoratorFor(decorator, (method, label) => ({ decorator, method, label, expression, options }));
}

/**
 * Puts a lease around a method that another scheduler calls, such as that of @nestjs/schedule: each call runs under the lease of
 * its job, as with `leasedTask(method, options)`, or runs not at all and resolves with undefined. It needs
 * `cron.register(object)` first; called before that it throws `ConfigError`, because it never runs without a lease.
 *
 * On a method with `@Cron` or `@Interval` of @nestjs/schedule, above or below, the name, the schedule and the zone are
 * those of that decorator. An interval names no instants and needs `minHold`.
 *
 * For methods of objects that return nothing or a promise of nothing, with the run (`CronRun`) for their only parameter or
 * none. Throws `ConfigError` for whatever else it is put on. The options are checked by `register`.
 */
export function Leased(options: LeasedOptions = {}): LeasedDecorator {
  const decorator = '@Leased';
  // Without its parentheses it is called with a class or a method.
  if (arguments.length > 1 || typeof options === 'function') {
    throw new ConfigError(decorator, 'is to be called: @Leased() or @Leased({ … })');
  }
  return decoratorFor(decorator, (handler, label) => {
    const bound: TriggeredMark['bound'] = new WeakMap();
    const method: Method = function (this: unknown, ...args) {
      const instance = typeof this === 'object' && this !== null ? this : undefined;
      const task = instance && bound.get(instance);
      if (task === undefined) {
        const isOverridden = instance !== undefined && marksOf(instance).every((its) => its.method !== method);
        throw new ConfigError(
          decorator,
          isOverridden
            ? `${label} was called by an object whose class overrides it, so it has no lease there; put what both do into a method without a decorator`
            : `${label} was called before its object was registered; call cron.register(object) first, because it never runs without a lease`,
        );
      }
      return task(...args);
    };
    for (const property of ['name', 'length'] as const) {
      Object.defineProperty(method, property, { value: handler[property], configurable: true });
    }
    copyMetadata(handler, method);
    return { decorator, method, label, handler, options, bound };
  });
}

/** The second argument of a standard decorator. */
interface StandardContext {
  readonly kind: string;
  readonly name: string | symbol;
  readonly static: boolean;
  readonly private: boolean;
  readonly addInitializer: (initializer: (this: object) => void) => void;
}

/** Standard decorators get a value and a context; legacy ones a prototype, a key and a property descriptor. */
function decoratorFor(
  decorator: string,
  marking: (method: Method, label: string) => Mark,
): (...args: readonly unknown[]) => never {
  function standard(value: unknown, { kind, name, addInitializer, ...its }: StandardContext): unknown {
    const label = String(name);
    if (kind !== 'method') refuse(label, kind === 'accessor' ? 'an accessor' : `a ${kind}`);
    if (its.static) refuse(label, 'static');
    if (its.private) refuse(label, 'private');
    const marked = marking(value as Method, label);
    mark(marked);
    addInitializer(function () {
      declare(this, marked);
    });
    return marked.method === value ? undefined : marked.method;
  }

  function legacy(target: unknown, key: string | symbol | undefined, descriptor: unknown): unknown {
    if (key === undefined) refuse(nameOf(target), typeof descriptor === 'number' ? 'a parameter' : 'a class');
    const label = `${nameOf(typeof target === 'function' ? target : (target as object).constructor)}.${String(key)}`;
    if (typeof descriptor === 'number') refuse(label, 'a method with a decorated parameter');
    if (typeof target === 'function') refuse(label, 'static');
    const its = descriptor as PropertyDescriptor | undefined;
    if (its === undefined) refuse(label, 'a field');
    if (typeof its.value !== 'function') refuse(label, 'a getter or setter');
    const marked = marking(its.value as Method, label);
    mark(marked);
    declare(target as object, marked);
    return marked.method === its.value ? undefined : { ...its, value: marked.method };
  }

  function refuse(label: string, what: string): never {
    throw new ConfigError(decorator, `is for methods of objects, and ${label} is ${what}`);
  }

  return (...args) => {
    const [, second] = args;
    const isStandard = typeof second === 'object' && second !== null && 'kind' in second;
    return (
      isStandard
        ? standard(args[0], second as unknown as StandardContext)
        : legacy(args[0], second as string | symbol | undefined, args[2])
    ) as never;
  };
}

function nameOf(value: unknown): string {
  return typeof value === 'function' && value.name !== '' ? value.name : 'a class';
}
