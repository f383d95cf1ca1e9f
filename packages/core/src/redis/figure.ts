/**
 * A figure as a record has it: a whole number that a double is exact for. Empty is 0. Undefined for anything else: nothing may
 * be decided by a figure that compares with nothing.
 */
export function figureOf(text: string): number | undefined {
  const value = text === '' ? 0 : Number(text);
  return Number.isSafeInteger(value) && value >= 0 ? value : undefined;
}
