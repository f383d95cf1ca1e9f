const SECOND = 1000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/** `412 ms`, `12.4 s`, `7 min 3 s`, `2 h 5 min`, `3 d 4 h`. */
export function formatDuration(ms: number): string {
  // Down, so that a lease is never said to run longer than it does.
  const whole = Math.max(0, Math.floor(ms));
  if (whole < SECOND) return `${whole} ms`;
  if (whole < MINUTE) return `${(Math.floor(whole / 100) / 10).toFixed(1)} s`;
  if (whole < HOUR) return twoUnits(whole, MINUTE, 'min', SECOND, 's');
  if (whole < DAY) return twoUnits(whole, HOUR, 'h', MINUTE, 'min');
  return twoUnits(whole, DAY, 'd', HOUR, 'h');
}

function twoUnits(ms: number, large: number, largeName: string, small: number, smallName: string): string {
  const rest = Math.floor((ms % large) / small);
  return `${Math.floor(ms / large)} ${largeName}${rest === 0 ? '' : ` ${rest} ${smallName}`}`;
}

/** `3.0 s ago`, `in 2 min`. By this machine's clock: for people, where the difference to the store's does not matter. */
export function formatRelative(at: Date, nowMs: number): string {
  const ms = at.getTime() - nowMs;
  return ms > 0 ? `in ${formatDuration(ms)}` : `${formatDuration(-ms)} ago`;
}

/** `2026-01-15T02:41:07Z`: a part of a second later rather than earlier, for what is waited for. */
export function untilOf(ms: number): string {
  return `${new Date(Math.ceil(ms / 1000) * 1000).toISOString().slice(0, 19)}Z`;
}
