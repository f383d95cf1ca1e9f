import { createRequire } from 'node:module';

/** Where a class of BullMQ was loaded from: its module is CommonJS, so it is in the cache of `require`, with those of others. */
export function pathOf(its: object): string | undefined {
  const { cache } = createRequire(import.meta.url);
  // Getters of others are not to be called.
  const valuesOf = (path: string) => Object.values(Object.getOwnPropertyDescriptors(Object(cache[path]?.exports)));
  return Object.keys(cache).find((path) => valuesOf(path).some(({ value }) => value === its));
}
