// What these two publish has no types that a resolver of today finds. As far as the adapters use them.
declare module 'redlock-4' {
  import type { EventEmitter } from 'node:events';

  export interface Lock {
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

  export interface Lock {
    release(): Promise<unknown>;
  }

  class Redlock extends EventEmitter {
    constructor(clients: readonly object[], settings: Readonly<Record<string, number>>);
    acquire(resources: string[], ttl: number): Promise<Lock>;
    using(resources: string[], ttl: number, routine: (signal: AbortSignal) => Promise<unknown>): Promise<unknown>;
  }
  export default Redlock;
}
