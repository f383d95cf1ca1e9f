/**
 * One piece of evidence: its value, or why there is none. "Not permitted" and "not known here" are evidence, too, and
 * never a value that could be taken for one.
 */
export type Reading<T> =
  | { readonly known: true; readonly value: T }
  | { readonly known: false; readonly why: 'not-permitted' | 'unreachable' | 'not-known'; readonly detail: string };

export function known<T>(value: T): Reading<T> {
  return { known: true, value };
}

/** `detail`: one sentence for a person. */
export function unknown(why: 'not-permitted' | 'unreachable' | 'not-known', detail: string): Reading<never> {
  return { known: false, why, detail };
}

export function valueOf<T>(reading: Reading<T>): T | undefined {
  return reading.known ? reading.value : undefined;
}
