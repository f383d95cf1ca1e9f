import { ConfigError } from '@leasehold/core';

import type { CronTask } from './cron-run.ts';
import type { LeasedTask } from './leased-task.ts';
import type { LeasedTaskOptions, ScheduleOptions } from './options.ts';

/** Options of `@Leased`: those of `leasedTask`. */
export interface LeasedOptions extends Omit<LeasedTaskOptions, 'name'> {
  /**
   * The job: the same in every process, unique within this one, and stable. 1 to 128 of `A-Z a-z 0-9 _ . : -`.
   * @default the name that `@Cron` or `@Interval` of @nestjs/schedule gives
   */
  readonly name?: string;
}

/** A method as decorators see it: without its object. */
export type Method = (this: unknown, ...args: readonly unknown[]) => unknown;

interface Marked {
  /** What stands on the prototype. */
  readonly method: Method;
  /** Class and name where both are known, for messages. */
  readonly label: string;
}

/** Of `@LeasedCron`. */
export interface ScheduledMark extends Marked {
  readonly decorator: '@LeasedCron';
  readonly expression: string;
  readonly options: ScheduleOptions;
}

/** Of `@Leased`. */
export interface TriggeredMark extends Marked {
  readonly decorator: '@Leased';
  /** What the class has: runs without a lease, so nothing else calls it. */
  readonly handler: Method;
  readonly options: LeasedOptions;
  /** What calls of the method come to, for each object that is registered. */
  readonly bound: WeakMap<object, LeasedTask>;
}

export type Mark = ScheduledMark | TriggeredMark;

const marks = new WeakMap<Method, Mark>();
/** Where each mark belongs: the prototype in legacy mode, each object of the class in standard mode, which shows no class. */
const declared = new WeakMap<object, Set<Mark>>();

/** Throws `ConfigError` for a method that is marked already: one of the two marks would be without effect. */
export function mark(mark: Mark): void {
  const { decorator, label, method } = mark;
  const before = marks.get(mark.decorator === '@Leased' ? mark.handler : method);
  if (before !== undefined) {
    throw new ConfigError(
      decorator,
      `${label} has ${before.decorator} already, and a method has one of the two, once; leave one out`,
    );
  }
  marks.set(method, mark);
}

export function declare(owner: object, mark: Mark): void {
  const its = declared.get(owner) ?? new Set();
  declared.set(owner, its.add(mark));
}

/**
 * The marks that count for an object, in the order of its methods, those of its own class first. A method that overrides
 * another counts with its own mark or with none. Throws `ConfigError` for a method that something has replaced after it
 * was marked, because what replaced it would run unseen, or never.
 */
export function marksOf(instance: object): readonly Mark[] {
  const counting = new Set<Mark>();
  const inPlace = new Set<Mark>();
  const expected = [...(declared.get(instance) ?? [])];
  const overridden = new Set<PropertyKey>();
  for (const prototype of prototypesOf(instance)) {
    expected.push(...(declared.get(prototype) ?? []));
    for (const key of Reflect.ownKeys(prototype)) {
      const method: unknown = Object.getOwnPropertyDescriptor(prototype, key)?.value;
      const found = typeof method === 'function' ? marks.get(method as Method) : undefined;
      if (found !== undefined) {
        inPlace.add(found);
        if (!overridden.has(key)) counting.add(found);
      }
      overridden.add(key);
    }
  }
  const lost = expected.find((mark) => !inPlace.has(mark));
  if (lost !== undefined) {
    throw new ConfigError(
      lost.decorator,
      `${lost.label} was replaced after it was marked, so it would not run; put ${lost.decorator} above decorators that replace the method`,
    );
  }
  return [...counting];
}

function* prototypesOf(instance: object): Generator<object> {
  let prototype: unknown = Object.getPrototypeOf(instance);
  while (typeof prototype === 'object' && prototype !== null && prototype !== Object.prototype) {
    yield prototype;
    prototype = Object.getPrototypeOf(prototype);
  }
}

/** The method with the object that it belongs to, as a task. */
export function taskOf(method: Method, instance: object): CronTask {
  return (run) => method.call(instance, run);
}
