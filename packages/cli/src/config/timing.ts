import { checkLeaseTiming, ConfigError } from '@leasehold/core';

import type { z } from 'zod';

import type { Judge } from './judge.ts';
import type { Path } from './problem.ts';
import type { TimingSettings } from './settings.ts';
import { duration, number, ttl } from './values.ts';

/** Where a config has the options of the manager. */
const PLACES: Readonly<Record<string, Path>> = {
  ttl: ['defaults', 'lease', 'ttl'],
  refreshRatio: ['defaults', 'lease', 'refreshRatio'],
  safetyMargin: ['defaults', 'lease', 'safetyMargin'],
  driftRate: ['defaults', 'lease', 'driftRate'],
  activateTimeout: ['defaults', 'lease', 'activateTimeout'],
  callTimeout: ['store', 'callTimeout'],
};

const FIELDS: Readonly<Record<string, z.ZodType<number>>> = {
  ttl: ttl(),
  refreshRatio: number(),
  safetyMargin: duration(),
  driftRate: number(),
  activateTimeout: duration(),
  callTimeout: duration(),
};

/** By core's own rules, whatever else is wrong with the config. Gives what of it is sound. */
export function checkTiming(judge: Judge, raw: unknown): TimingSettings {
  const { ttl: ttlMs, ...its } = given(raw);
  const sound: Record<string, number> = { ...its };
  const hidden = ['ttl', ...Object.keys(its)].some((option) => judge.isHidden(placeOf(option)));
  for (;;) {
    const refusal = refusalOf({ ...(ttlMs !== undefined && { ttl: ttlMs }), ...sound });
    if (refusal === undefined) return sound;
    const { option } = refusal;
    // Of a rule between several the one that is named may be a default.
    const faulty = [option, 'refreshRatio'].find((each) => each in sound);
    say(judge, placeOf(faulty ?? 'ttl'), at(raw, faulty ?? 'ttl'), refusal, hidden);
    if (faulty === undefined) return sound;
    delete sound[faulty];
  }
}

/** Of a job that has a ttl of its own. */
export function checkTtl(judge: Judge, path: Path, ttlMs: number, timing: TimingSettings): void {
  const refusal = refusalOf({ ...timing, ttl: ttlMs });
  const hidden = [path, ...Object.keys(timing).map((option) => placeOf(option))].some((at) => judge.isHidden(at));
  if (refusal !== undefined) say(judge, path, ttlMs, refusal, hidden);
}

/** Each by itself, so that one that is none hides no other. */
function given(raw: unknown): Readonly<Record<string, number>> {
  const all = Object.entries(FIELDS).map(([option, field]) => [option, field.safeParse(at(raw, option)).data] as const);
  return Object.fromEntries(all.filter((entry): entry is [string, number] => entry[1] !== undefined));
}

function at(raw: unknown, option: string): unknown {
  return placeOf(option).reduce<unknown>(
    (its, key) => (its as Record<PropertyKey, unknown> | null | undefined)?.[key],
    raw,
  );
}

function placeOf(option: string): Path {
  return PLACES[option] ?? ['defaults', 'lease'];
}

interface Refusal {
  readonly option: string;
  readonly text: string;
}

function refusalOf(options: Readonly<Record<string, unknown>>): Refusal | undefined {
  try {
    checkLeaseTiming(options);
    return undefined;
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    return { option: error.option, text: error.message.slice(`CONFIG: ${error.option}: `.length) };
  }
}

/** In core's words, without numbers that came from the environment. */
function say(judge: Judge, path: Path, value: unknown, { text }: Refusal, hidden: boolean): void {
  const rule = /^is [^:]*: (must .*)$/s.exec(text)?.[1];
  if (rule !== undefined) return judge.add(path, `is ${judge.shown(path, value)}: ${rule}`);
  if (!hidden) return judge.add(path, `does not go with the rest: ${text}`);
  const why = 'a lease must be trusted for longer than refresh + 2 x callTimeout';
  judge.add(path, `does not go with the rest: ${why}`, 'raise ttl or refreshRatio, or lower the others');
}
