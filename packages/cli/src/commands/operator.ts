import { hostname, userInfo } from 'node:os';

/** The log takes no more. */
const LONGEST_OPERATOR = 256;

/** Who asks, for the log. */
export function operatorLine(): string {
  let user = 'somebody';
  try {
    user = userInfo().username;
  } catch {
    // A container's user may have no name.
  }
  return `${user}@${hostname()}`.slice(0, LONGEST_OPERATOR);
}
