const SECOND = 1000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/** What people count time in, so that marks fall on whole ones. */
const STEPS: readonly number[] = [
  ...[1, 2, 5, 10, 20, 50, 100, 200, 500],
  ...[1, 2, 5, 10, 15, 30].map((count) => count * SECOND),
  ...[1, 2, 5, 10, 15, 30].map((count) => count * MINUTE),
  ...[1, 2, 3, 6, 12].map((count) => count * HOUR),
  ...[1, 2, 7, 14, 30, 60, 180, 365, 730].map((count) => count * DAY),
];

/** Labels of ticks would touch each other if there were more. */
const MOST = 8;

export interface AxisTick {
  readonly at: number;
  readonly label: string;
}

/** The marks of a time axis, UTC. From and to in epoch milliseconds. */
export function axisTicks(from: number, to: number): readonly AxisTick[] {
  const span = to - from;
  const step = STEPS.find((its) => span / its <= MOST) ?? Math.ceil(span / MOST / DAY) * DAY;
  const first = Math.ceil(from / step) * step;
  const count = Math.max(0, Math.floor((to - first) / step) + 1);
  return Array.from({ length: count }, (_, index) => {
    const at = first + index * step;
    return { at, label: labelOf(at, step, span) };
  });
}

function labelOf(at: number, step: number, span: number): string {
  const text = new Date(at).toISOString();
  if (step >= DAY) return text.slice(0, 10);
  if (span > DAY) return `${text.slice(5, 10)} ${text.slice(11, 16)}`;
  if (step < SECOND) return text.slice(11, 23);
  return step < MINUTE ? text.slice(11, 19) : text.slice(11, 16);
}
