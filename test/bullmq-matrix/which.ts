import { createRequire } from 'node:module';

/** Where a class of BullMQ was loaded from: its module is CommonJS, so it is in the cache of `require`. */
export function pathOf(its: object): string | undefined {
  const { cache } = createRequire(import.meta.url);
  return Object.keys(cache).find((path) => Object.values(cache[path]?.exports as object).includes(its));
}
