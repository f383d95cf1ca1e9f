/** The options that several parts share, checked. Each throws `ConfigError`. */

import { ConfigError } from '../errors.ts';
import { show } from '../show.ts';

function checkFunction(option: string, value: unknown, rule: string): void {
  if (value === undefined || typeof value === 'function') return;
  throw new ConfigError(option, `is ${show(value)}: must be ${rule}`);
}

export function checkFetch(fetch: unknown): void {
  checkFunction('fetch', fetch, 'a function like the global fetch');
}

export function checkSign(sign: unknown): void {
  checkFunction('sign', sign, 'a function that signs grants, such as signer({ keys, current })');
}

export function checkVerify(verify: unknown): void {
  checkFunction('verify', verify, 'a function that verifies signatures, such as verifier({ keys })');
}

export function checkAllowSeal(allowSeal: unknown): void {
  checkFunction('allowSeal', allowSeal, 'a function of the request, true for whoever may seal');
}

export function checkHandler(handler: unknown): void {
  if (handler === undefined)
    throw new ConfigError('handler', 'is missing: must be a function of a request and its grant');
  checkFunction('handler', handler, 'a function of a request and its grant');
}

/** What names the resource of a route. */
export function checkRouteResource(resource: unknown): void {
  if (typeof resource === 'function' || typeof resource === 'string') return;
  throw new ConfigError(
    'resource',
    `is ${show(resource)}: must be the qualified name that this route is for, or a function that makes it of the request`,
  );
}
