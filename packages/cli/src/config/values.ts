import {
  checkLeaseTiming,
  checkPrefix,
  checkResourceName,
  ConfigError,
  parseDuration,
  type Duration,
} from '@leasehold/core';
import { inspectSchedule } from '@leasehold/cron';
import type { z } from 'zod';

import { Fault, field, type Json } from './field.ts';
import { nearest } from './nearest.ts';
import type { HandlerSettings, ListenSettings } from './settings.ts';

/** What may stand in a text instead of anything else. */
export const VARIABLE = '\\$\\{';

const UNIT: Readonly<Record<string, string>> = { milli: 'ms', ms: 'ms', s: 's', m: 'm', h: 'h', d: 'd' };

/** `'30s'`, `'5m'`, or milliseconds. */
export function duration(
  allowed: (ms: number) => boolean = () => true,
  rule = '',
  guess?: (ms: number) => string | undefined,
): z.ZodType<number, Duration> {
  const json = {
    anyOf: [
      { type: 'integer', minimum: 0 },
      { type: 'string', pattern: `^\\d+(\\.\\d+)?(ms|s|m|h|d)$|${VARIABLE}` },
    ],
  };
  return field<number, Duration>(json, (value) => {
    let ms: number;
    try {
      ms = parseDuration('', value);
    } catch {
      return new Fault("must be a time such as '250ms', '30s', '5m', '2h' or '1d', or whole milliseconds", {
        remedy: guessOfText(value),
        plain: "must be a time such as '30s'",
      });
    }
    if (allowed(ms)) return ms;
    const meant = typeof value === 'number' ? guess?.(ms) : undefined;
    return new Fault(rule, { remedy: meant === undefined ? undefined : `did you mean '${meant}'?` });
  });
}

/** For a number that is too small or too great to be milliseconds. */
export function secondsMeant(ms: number): string | undefined {
  return Number.isSafeInteger(ms) && ms > 0 && ms <= 86_400 ? `${ms}s` : undefined;
}

function guessOfText(value: unknown): string | undefined {
  if (typeof value !== 'string') return undefined;
  const [, number, unit = ''] = /^\s*(\d+(?:\.\d+)?)\s*([a-z]*)\.?\s*$/i.exec(value) ?? [];
  if (number === undefined) return undefined;
  if (unit === '') return `give it a unit: '${number}s'`;
  const lower = unit.toLowerCase();
  if (lower.startsWith('w')) return `write days: '${Number(number) * 7}d'`;
  const known = lower === 'ms' || lower.startsWith('mil') || lower === 'msec' ? 'ms' : UNIT[lower.charAt(0)];
  if (known === undefined || lower.startsWith('mo')) return undefined;
  const meant = `${number}${known}`;
  // One that is only too long.
  return meant === value ? undefined : `did you mean '${meant}'?`;
}

/** The rule of `LeaseManager` for a ttl. */
export function ttl(): z.ZodType<number, Duration> {
  const isOne = (ms: number): boolean => passes(() => checkLeaseTiming({ ttl: ms }), '') === undefined;
  return duration(isOne, 'must be 100 ms to 24 h; a number is milliseconds', secondsMeant);
}

/** One of these values. */
export function oneOf<const T extends string>(...values: readonly T[]): z.ZodType<T, T> {
  const texts = values.map((value) => `'${value}'`);
  const rule = `must be ${texts.slice(0, -1).join(', ')} or ${texts.at(-1)}`;
  return field<T, T>({ type: 'string', enum: values }, (value) => {
    const found = values.find((known) => known === value);
    if (found !== undefined) return found;
    const meant = typeof value === 'string' ? nearest(value, values) : undefined;
    return new Fault(rule, { remedy: meant === undefined ? undefined : `did you mean '${meant}'?` });
  });
}

/** Any number: its range is judged by those whose it is. */
export function number(): z.ZodType<number, number> {
  const json = { anyOf: [{ type: 'number' }, { type: 'string', pattern: `^\\d+(\\.\\d+)?$|${VARIABLE}` }] };
  return field<number, number>(json, (value) => {
    // A variable is a text.
    const its = typeof value === 'string' && /^\d{1,15}(\.\d{1,15})?$/.test(value) ? Number(value) : value;
    return typeof its === 'number' && Number.isFinite(its) ? its : new Fault('must be a number');
  });
}

export function whole(min: number, max = Infinity): z.ZodType<number, number> {
  const json = {
    anyOf: [
      { type: 'integer', minimum: min, ...(max < Infinity && { maximum: max }) },
      { type: 'string', pattern: `^\\d+$|${VARIABLE}` },
    ],
  };
  return field<number, number>(json, (value) => {
    // A variable is a text.
    const number = typeof value === 'string' && /^\d{1,15}$/.test(value) ? Number(value) : value;
    const isOne = typeof number === 'number' && Number.isSafeInteger(number) && number >= min && number <= max;
    return isOne ? number : new Fault(`must be a whole number, ${min} ${max < Infinity ? `to ${max}` : 'or more'}`);
  });
}

export function flag(): z.ZodType<boolean, boolean> {
  const json = { anyOf: [{ type: 'boolean' }, { type: 'string', pattern: `^(true|false)$|${VARIABLE}` }] };
  return field<boolean, boolean>(json, (value) => {
    if (value === true || value === 'true') return true;
    if (value === false || value === 'false') return false;
    const isOther = typeof value === 'string' && /^(?:yes|no|on|off)$/i.test(value);
    return new Fault('must be true or false', {
      remedy: isOther ? `write ${/^(?:yes|on)$/i.test(value) ? 'true' : 'false'}` : undefined,
    });
  });
}

function text<In extends string = string>(
  json: Json,
  check: (value: string) => Fault | undefined,
): z.ZodType<string, In> {
  return field<string, In>({ type: 'string', ...json }, (value) => {
    if (typeof value !== 'string') return new Fault('must be a text');
    return check(value) ?? value;
  });
}

/** What one of core's checks refuses, by our own words for its rule. */
function passes(check: () => void, rule: string): Fault | undefined {
  try {
    check();
    return undefined;
  } catch {
    return new Fault(rule);
  }
}

export function prefix(): z.ZodType<string, string> {
  const rule = 'must be 1 to 64 of A-Z a-z 0-9 _ . -, beginning with a letter or a digit';
  return text({}, (value) => passes(() => checkPrefix('', value), rule));
}

export function resource(): z.ZodType<string, string> {
  return text({ minLength: 1 }, faultOfResource);
}

/** Of a name that no resource can have. */
export function faultOfResource(name: string): Fault | undefined {
  return passes(() => checkResourceName('', name), 'must be 1 to 256 bytes without control characters');
}

export function redisUrl(): z.ZodType<string, string> {
  return field<string, string>({ type: 'string', pattern: `^rediss?://|${VARIABLE}` }, (value) => {
    return faultOfRedisUrl(value) ?? (value as string);
  });
}

export function faultOfRedisUrl(value: unknown): Fault | undefined {
  if (typeof value !== 'string') return new Fault('must be a text');
  const rule =
    'must be a URL such as redis://host:6379 or rediss://host:6379/1 (its value is not shown, it may hold a password)';
  if (!/^rediss?:\/\//.test(value) || !URL.canParse(value)) return new Fault(rule, { secret: true });
  const { pathname, searchParams } = new URL(value);
  const database = searchParams.get('db') ?? pathname.slice(1);
  if (!/^\d{0,9}$/.test(database)) return new Fault('must have a number for its database', { secret: true });
  if (!searchParams.get('keyPrefix')) return undefined;
  return new Fault('must have no keyPrefix', { secret: true, remedy: 'use store.prefix' });
}

export function postgresUrl(): z.ZodType<string, string> {
  const json = { pattern: `^postgres(ql)?://|${VARIABLE}` };
  const rule = 'must be a URL such as postgres://host:5432/database (its value is not shown, it may hold a password)';
  return text(json, (value) => (/^postgres(?:ql)?:\/\/./.test(value) ? undefined : new Fault(rule, { secret: true })));
}

/** The rule of `postgresFence`. */
export function schemaName(): z.ZodType<string, string> {
  return text({ pattern: `^[a-z_][a-z0-9_]{0,47}$|${VARIABLE}` }, (value) =>
    /^(?!pg_)[a-z_][a-z0-9_]{0,47}$/.test(value)
      ? undefined
      : new Fault('must be 1 to 48 of a-z 0-9 _, not beginning with a digit or pg_'),
  );
}

/** The rule of BullMQ for the names of queues and their prefix. */
export function queueName(): z.ZodType<string, string> {
  return text({ minLength: 1 }, (value) =>
    value !== '' && !value.includes(':') ? undefined : new Fault('must be a text without a colon, and not empty'),
  );
}

export function queuePrefix(): z.ZodType<string, string> {
  return text({ minLength: 1 }, (value) => (value === '' ? new Fault('must not be empty') : undefined));
}

/** Whether there is such a fence is seen later. */
export function fenceReference(): z.ZodType<string, string> {
  return text({}, () => undefined);
}

export function zone(): z.ZodType<string, string> {
  return text({}, (value) => {
    try {
      Intl.DateTimeFormat('en', { timeZone: value });
      return undefined;
    } catch {
      const meant = nearest(value, Intl.supportedValuesOf('timeZone'));
      const remedy = meant === undefined ? undefined : `did you mean '${meant}'?`;
      return new Fault("must be a time zone, such as 'UTC' or 'Europe/Berlin'", { remedy });
    }
  });
}

export function cronExpression(): z.ZodType<string, string> {
  return text({ minLength: 1 }, (value) => {
    const rule = "must be a schedule of 5 or 6 fields, such as '*/15 * * * *' or '0 3 * * *'";
    if (value.length > 1000) return new Fault(rule);
    try {
      inspectSchedule(value, { timezone: 'UTC', count: 0 });
      return undefined;
    } catch (error) {
      const text = error instanceof ConfigError ? /is not a schedule: (.*)$/s.exec(error.message)?.[1] : undefined;
      // As node-cron says it: '61 is a invalid expression for minute'.
      const said = text?.replaceAll(/ is an? invalid expression for (?:the )?/g, ' is no value of the field ');
      const every = /^@?every[ :]+(\S+)$/.exec(value)?.[1];
      const remedy = every === undefined ? undefined : `write every: ${every} instead of cron`;
      return new Fault(said === undefined ? rule : `${rule}: ${said}`, { remedy, plain: rule });
    }
  });
}

const HANDLER = /^((?:\.{1,2}\/|\/)[^#]*\.([cm]?[jt]s))(?:#([A-Za-z_$][\w$]*))?$/;

export function handler(): z.ZodType<HandlerSettings, string> {
  const json = { type: 'string', pattern: `^(\\.{1,2}/|/)[^#]*\\.[cm]?[jt]s(#[A-Za-z_$][\\w$]*)?$|${VARIABLE}` };
  return field<HandlerSettings, string>(json, (value) => {
    const rule = "must be a file of JavaScript or TypeScript, and after a # what it exports: './jobs/pay.js#charge'";
    if (typeof value === 'function') return new Fault(rule, { remedy: 'a config names code, it holds none' });
    if (typeof value !== 'string') return new Fault(rule);
    const [, module, , exported = 'default'] = HANDLER.exec(value) ?? [];
    if (module !== undefined) return { module, exported };
    // Of a path from the root nobody knows what was meant.
    const meant = /^\/|[:@\s]/.test(value)
      ? undefined
      : [`./${value}`, `${value}.js`].find((text) => HANDLER.test(text));
    const remedy = meant === undefined ? undefined : `write '${meant}'`;
    return new Fault(rule, { remedy });
  });
}

export function listen(): z.ZodType<ListenSettings, string | number> {
  const json = {
    anyOf: [
      { type: 'integer', minimum: 0, maximum: 65_535 },
      { type: 'string', pattern: `^.*:\\d+$|^\\d+$|${VARIABLE}` },
    ],
  };
  return field<ListenSettings, string | number>(json, (value) => {
    const rule = "must be a port, or an address and a port: 9464, ':9464', '127.0.0.1:9464' or '[::1]:9464'";
    const [, host = '', port = ''] =
      (typeof value === 'string' || typeof value === 'number') && value !== ''
        ? (/^(?:(\[[\da-f:.]+\]|[^:[\]]*):)?(\d{1,5})$/i.exec(String(value)) ?? [])
        : [];
    if (port === '' || Number(port) > 65_535) return new Fault(rule);
    return { host: host === '' ? undefined : host.replace(/^\[|\]$/g, ''), port: Number(port) };
  });
}
