/** Where a command writes. `process.stdout` is one. */
export interface Sink {
  write(text: string): unknown;
  readonly isTTY?: boolean | undefined;
  /** Only of a terminal. */
  readonly columns?: number | undefined;
  /** Only of a terminal. */
  readonly rows?: number | undefined;
}

/** What a command has of the process it runs in. */
export interface Io {
  /** Data, and nothing else. */
  readonly stdout: Sink;
  /** Aborts when the standard output cannot be written any more: a reader has gone, or a device is full. */
  readonly cut?: AbortSignal | undefined;
  /** Everything else. */
  readonly stderr: Sink;
  readonly stdin: NodeJS.ReadableStream & {
    readonly isTTY?: boolean | undefined;
    /** Only of a terminal: whether keys come one by one, unechoed. */
    setRawMode?(isRaw: boolean): unknown;
  };
  readonly env: Readonly<Record<string, string | undefined>>;
}

export function processIo(cut: AbortSignal): Io {
  return { stdout: process.stdout, stderr: process.stderr, stdin: process.stdin, env: process.env, cut };
}
