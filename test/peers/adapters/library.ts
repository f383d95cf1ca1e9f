/** A lock library as its page shows it, for measuring. What it does under a failure is for `Peer`. */
export interface LockLibrary {
  readonly name: string;
  /** The package whose version is told, as it is named in the package.json of this folder. */
  readonly dependency: string;
  readonly needsNode?: number;
  /** Which of its two ways extends what is held. */
  readonly extendedBy: 'acquire' | 'using' | 'nobody';
  /** The key whose time to live is that of the lock. */
  keyOf(resource: string): string;
  open(options: LibraryOptions): OpenLibrary;
}

export interface LibraryOptions {
  readonly url: string;
  readonly ttlMs: number;
  /** For the ways that extend. Default: the library's. */
  readonly extendEachMs?: number;
}

export interface OpenLibrary {
  /** Waits by the library's own defaults, but without an end. Gives the library's own lock. */
  acquire(resource: string): Promise<unknown>;
  release(lock: unknown): Promise<unknown>;
  using?(resource: string, work: () => Promise<unknown>): Promise<unknown>;
  close(): void;
}

/** To hold and to release, in the way that extends if there is one. */
export function holding({ extendedBy }: LockLibrary, opened: OpenLibrary): Pick<OpenLibrary, 'acquire' | 'release'> {
  const { using } = opened;
  return extendedBy !== 'using' || using === undefined ? opened : inside(using);
}

/** A lock that is held for as long as the work under it stays, as a function that lets the work end. */
export function inside(
  using: (resource: string, work: () => Promise<unknown>) => Promise<unknown>,
): Pick<OpenLibrary, 'acquire' | 'release'> {
  return {
    acquire: (resource) =>
      new Promise((resolve, reject) => {
        const over = using(resource, async () => {
          await new Promise<void>((leave) => {
            resolve(() => {
              leave();
              return over;
            });
          });
        });
        over.catch(reject);
      }),
    release: (leave) => (leave as () => Promise<unknown>)(),
  };
}
