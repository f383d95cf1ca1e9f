/** What an error of the client means: whose fault it is, and whether the request may have been carried out. */

import { StoreAuthError, StoreUnavailableError, type LeaseholdError } from '../errors.ts';
import { isError, messageOf, peek, propertyOf } from '../thrown.ts';

/** Error replies with which the server refuses a script before its first command. */
const REFUSED =
  /^(READONLY|LOADING|OOM|MISCONF|BUSY|CLUSTERDOWN|NOREPLICAS|MASTERDOWN|TRYAGAIN|MOVED|ASK|CROSSSLOT|NOSCRIPT|UNKILLABLE)\b/;
const AUTH = /^(WRONGPASS|NOAUTH|NOPERM)\b|invalid password|invalid username-password|user executing the script can't/i;

/** With which ioredis and node-redis reject at once what their socket cannot take. */
const UNSENT = /^(Stream isn't writeable|The client is (offline|closed)$)/;

/** So deep the causes of an error are copied: a chain may be a ring. */
const MAX_CAUSES = 10;

/** The server's word, as opposed to the connection's. */
export function isErrorReply(error: unknown): error is Error {
  if (!isError(error)) return false;
  const isReply = propertyOf(error, 'name') === 'ReplyError' || /^[A-Z]{2,} /.test(messageOf(error));
  return isReply && peek(() => !('syscall' in error)) === true;
}

export function isAuthFailure(error: unknown): error is Error {
  return isErrorReply(error) && AUTH.test(messageOf(error));
}

export function isReadOnly(error: unknown): boolean {
  return isErrorReply(error) && messageOf(error).startsWith('READONLY');
}

export function isNoScript(error: unknown): boolean {
  return isErrorReply(error) && messageOf(error).startsWith('NOSCRIPT');
}

/** The database of the connection could not be chosen. */
export function isSelectFailure(error: unknown): error is Error {
  const name = propertyOf(propertyOf(error, 'command'), 'name');
  return isError(error) && (name === 'select' || messageOf(error).startsWith('ERR DB index'));
}

/** The server refused the request, before its first command. */
export function isRefusal(error: unknown): boolean {
  return isErrorReply(error) && (REFUSED.test(messageOf(error)) || AUTH.test(messageOf(error)));
}

/** The text of a script is no Lua: it will never run. */
export function isUncompiled(error: unknown): error is Error {
  return isErrorReply(error) && /^ERR Error compiling script/i.test(messageOf(error));
}

/** The request never left this process. */
export function isUnsent(error: unknown): boolean {
  return isError(error) && UNSENT.test(messageOf(error));
}

/** The error as a cause, without the command that ioredis hangs on it: HELLO carries the password. */
export function withoutCommand(error: unknown): unknown {
  return copyOf(error, MAX_CAUSES);
}

function copyOf(error: unknown, depth: number): unknown {
  if (depth === 0) return undefined;
  if (!isError(error)) return error;
  const inner = propertyOf(error, 'cause');
  const copy = new Error(messageOf(error), inner === undefined ? undefined : { cause: copyOf(inner, depth - 1) });
  for (const name of ['name', 'stack'] as const) {
    const text = propertyOf(error, name);
    if (typeof text === 'string') copy[name] = text;
  }
  const code = propertyOf(error, 'code');
  if (code !== undefined) Object.assign(copy, { code });
  return copy;
}

/** For a request that had been sent. */
export function failureOf(where: string, what: string, error: unknown): LeaseholdError {
  const cause = withoutCommand(error);
  if (isAuthFailure(error)) return authFailure(where, error);
  if (isErrorReply(error)) {
    return REFUSED.test(messageOf(error))
      ? new StoreUnavailableError(`${where} refused ${what}: ${messageOf(error)}`, { mayHaveRun: false, cause })
      : new StoreUnavailableError(`${where} failed in ${what}: ${messageOf(error)}`, { mayHaveRun: true, cause });
  }
  return new StoreUnavailableError(`${where} was lost before ${what} was answered`, {
    mayHaveRun: !isUnsent(error),
    cause,
  });
}

export function authFailure(where: string, error: Error): StoreAuthError {
  return new StoreAuthError(
    `${where} does not let us in: ${messageOf(error)}; check user, password and the rights of that user`,
    withoutCommand(error),
  );
}
