/** Values that break whoever looks at them: what code of somebody else's may throw. */
export const unreadable: readonly (readonly [string, () => unknown])[] = [
  [
    'a proxy without a prototype to be had',
    () =>
      new Proxy(
        {},
        {
          get: () => {
            throw new Error('get');
          },
          getPrototypeOf: () => {
            throw new Error('getPrototypeOf');
          },
        },
      ),
  ],
  [
    'an error whose getters throw',
    () => {
      const get = (): never => {
        throw new Error('a getter');
      };
      const [message, code, cause, name] = Array.from({ length: 4 }, () => ({ get }));
      return Object.defineProperties(new Error('x'), { message, code, cause, name } as PropertyDescriptorMap);
    },
  ],
  [
    'an error of ours, it says, whose code cannot be read',
    () =>
      Object.defineProperty(Object.assign(new Error('x'), { [Symbol.for('leasehold.error')]: true }), 'code', {
        get: () => {
          throw new Error('code');
        },
      }),
  ],
  ['undefined', () => undefined],
  ['an object without a prototype', () => Object.create(null)],
];

/** What `work` throws, itself: a promise of it would look whether it is a promise, too. */
export async function thrownBy(work: () => Promise<unknown>): Promise<{ readonly itself: unknown }> {
  try {
    await work();
  } catch (itself) {
    return { itself };
  }
  throw new Error('nothing was thrown');
}
