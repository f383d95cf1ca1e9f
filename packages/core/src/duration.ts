import { ConfigError } from './errors.ts';
import { show } from './show.ts';

/**
 * Milliseconds, or a number with a unit: `250`, `'250ms'`, `'30s'`, `'5m'`, `'2h'`, `'1d'`. A template type, so that
 * `'30sec'` does not compile.
 */
export type Duration = number | `${number}${'ms' | 's' | 'm' | 'h' | 'd'}`;

const UNITS: Readonly<Record<string, number>> = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 };
const PATTERN = /^(\d+(?:\.\d+)?)(ms|s|m|h|d)$/;

/** Whole milliseconds. Throws `ConfigError` naming `option`; `Infinity` passes (whether it may is the option's rule). */
export function parseDuration(option: string, value: unknown): number {
  if (typeof value === 'number') {
    if (value === Infinity) return value;
    if (!Number.isFinite(value) || value < 0 || !Number.isInteger(value)) {
      throw new ConfigError(option, `${value} is not a duration; give whole milliseconds or a text such as '30s'`);
    }
    return value;
  }
  const match = typeof value === 'string' ? PATTERN.exec(value) : null;
  if (match === null) {
    const shown = typeof value === 'string' ? `'${value}'` : show(value);
    throw new ConfigError(
      option,
      `${shown} is not a duration; give milliseconds or a text such as '250ms', '30s', '5m'`,
    );
  }
  const ms = Number(match[1]) * (UNITS[match[2] as string] as number);
  if (!Number.isSafeInteger(Math.round(ms))) throw new ConfigError(option, `'${String(value)}' is too long a time`);
  return Math.round(ms);
}
