import type { TcpProxy } from '../../support/proxy.ts';
import { onTheWay, type Going } from './proxied.ts';

/** RST on all connections of an owner to the store, and once more while it connects again. */
export const reset = onTheWay({
  name: 'reset',
  way: 'store',
  forTtls: [0.05, 0.3],
  begin(proxy) {
    const before = proxy.counters.connections;
    proxy.cut('reset');
    // Who was cut off comes again.
    return { met: () => proxy.counters.connections - before, end: () => proxy.cut('reset') };
  },
});

function refuse(proxy: TcpProxy): Going {
  const before = proxy.counters.refused;
  proxy.refuse();
  proxy.cut('reset');
  return { met: () => proxy.counters.refused - before, end: () => proxy.pass() };
}

/** Nobody listens where the store was. */
export const refused = onTheWay({
  name: 'refused',
  way: 'store',
  forTtls: [0.5, 1],
  begin: refuse,
});

/** Nobody listens where the fence was. */
export const fenceRefused = onTheWay({
  name: 'fence-refused',
  way: 'fence',
  forTtls: [0.5, 1],
  begin: refuse,
});

/** 50 to 300 ms in each direction, ever others. */
export const delay = onTheWay({
  name: 'delay',
  way: 'store',
  forTtls: [1, 2],
  begin(proxy, random) {
    const before = proxy.counters.delayed;
    const change = (): void => proxy.delay({ up: 50 + 250 * random(), down: 50 + 250 * random() });
    change();
    const timer = setInterval(change, 50);
    return {
      met: () => proxy.counters.delayed - before,
      end() {
        clearInterval(timer);
        proxy.pass();
      },
    };
  },
});
