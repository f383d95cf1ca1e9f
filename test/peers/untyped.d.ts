// What these two publish has no types that a resolver of today finds. As far as the adapters use them.
declare module 'redlock-4' {
  import type { EventEmitter } from 'node:events';

  interface Lock {
    extend(ttl: number): Promise<Lock>;
    unlock(): Promise<void>;
  }

  class Redlock extends EventEmitter {
    constructor(clients: readonly object[], options: Readonly<Record<string, number>>);
    lock(resource: string, ttl: number): Promise<Lock>;
  }
  export default Redlock;
}

declare module 'redlock-5' {
  import type { EventEmitter } from 'node:events';

  class Redlock extends EventEmitter {
    constructor(clients: readonly object[], settings: Readonly<Record<string, number>>);
    using(resources: string[], ttl: number, routine: (signal: AbortSignal) => Promise<void>): Promise<void>;
  }
  export default Redlock;
}
