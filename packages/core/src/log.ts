/** The part of a pino logger that Leasehold uses: fields first, then the message. Any logger of this shape will do. */
export interface Logger {
  debug(fields: object, message: string): void;
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
  error(fields: object, message: string): void;
}

function nothing(): void {}

export const silentLogger: Logger = { debug: nothing, info: nothing, warn: nothing, error: nothing };

/** A logger that cannot break a run: whatever the given one throws is dropped, because there is nowhere left to say it. */
export function guardedLogger(logger: Logger): Logger {
  function guard(level: keyof Logger): (fields: object, message: string) => void {
    return (fields, message) => {
      try {
        const result: unknown = logger[level](fields, message);
        // An asynchronous logger, whatever its type says.
        if (result instanceof Promise) result.catch(() => {});
      } catch {
        // A failing logger must not take the run with it.
      }
    };
  }
  return { debug: guard('debug'), info: guard('info'), warn: guard('warn'), error: guard('error') };
}

/** Calls code that is not ours and must not matter: what it throws or rejects with is logged. */
export function safely(logger: Logger, what: string, call: () => unknown): void {
  const failed = (err: unknown): void => logger.error({ err }, what);
  try {
    const result = call();
    if (result instanceof Promise) result.catch(failed);
  } catch (err) {
    failed(err);
  }
}
