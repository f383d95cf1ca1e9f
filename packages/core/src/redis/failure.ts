/** What an error of the client means: whose fault it is, and whether the request may have been carried out. */

import { StoreAuthError, StoreUnavailableError, type LeaseholdError } from '../errors.ts';

/** Error replies with which the server refuses a script before its first command. */
const REFUSED =
  /^(READONLY|LOADING|OOM|MISCONF|BUSY|CLUSTERDOWN|NOREPLICAS|MASTERDOWN|TRYAGAIN|MOVED|ASK|CROSSSLOT|NOSCRIPT|UNKILLABLE)\b/;
const AUTH = /^(WRONGPASS|NOAUTH|NOPERM)\b|invalid password|invalid username-password|user executing the script can't/i;

/** With which ioredis and node-redis reject at once what their socket cannot take. */
const UNSENT = /^(Stream isn't writeable|The client is (offline|closed)$)/;

/** The server's word, as opposed to the connection's. */
export function isErrorReply(error: unknown): error is Error {
  return (
    error instanceof Error &&
    (error.name === 'ReplyError' || /^[A-Z]{2,} /.test(error.message)) &&
    !('syscall' in error)
  );
}

export function isAuthFailure(error: unknown): error is Error {
  return isErrorReply(error) && AUTH.test(error.message);
}

export function isReadOnly(error: unknown): boolean {
  return isErrorReply(error) && error.message.startsWith('READONLY');
}

export function isNoScript(error: unknown): boolean {
  return isErrorReply(error) && error.message.startsWith('NOSCRIPT');
}

/** The database of the connection could not be chosen. */
export function isSelectFailure(error: unknown): error is Error {
  const { name } = (error as { readonly command?: { readonly name?: string } } | null | undefined)?.command ?? {};
  return error instanceof Error && (name === 'select' || error.message.startsWith('ERR DB index'));
}

/** The server refused the request, before its first command. */
export function isRefusal(error: unknown): boolean {
  return isErrorReply(error) && (REFUSED.test(error.message) || AUTH.test(error.message));
}

/** The text of a script is no Lua: it will never run. */
export function isUncompiled(error: unknown): error is Error {
  return isErrorReply(error) && /^ERR Error compiling script/i.test(error.message);
}

/** The request never left this process. */
export function isUnsent(error: unknown): boolean {
  return error instanceof Error && UNSENT.test(error.message);
}

/** The error as a cause, without the command that ioredis hangs on it: HELLO carries the password. */
export function withoutCommand(error: unknown): unknown {
  if (!(error instanceof Error)) return error;
  const cause = new Error(
    error.message,
    error.cause === undefined ? undefined : { cause: withoutCommand(error.cause) },
  );
  cause.name = error.name;
  if (error.stack !== undefined) cause.stack = error.stack;
  if ('code' in error) Object.assign(cause, { code: error.code });
  return cause;
}

/** For a request that had been sent. */
export function failureOf(where: string, what: string, error: unknown): LeaseholdError {
  const cause = withoutCommand(error);
  if (isAuthFailure(error)) return authFailure(where, error);
  if (isErrorReply(error)) {
    return REFUSED.test(error.message)
      ? new StoreUnavailableError(`${where} refused ${what}: ${error.message}`, { mayHaveRun: false, cause })
      : new StoreUnavailableError(`${where} failed in ${what}: ${error.message}`, { mayHaveRun: true, cause });
  }
  return new StoreUnavailableError(`${where} was lost before ${what} was answered`, {
    mayHaveRun: !isUnsent(error),
    cause,
  });
}

export function authFailure(where: string, error: Error): StoreAuthError {
  return new StoreAuthError(
    `${where} does not let us in: ${error.message}; check user, password and the rights of that user`,
    withoutCommand(error),
  );
}
