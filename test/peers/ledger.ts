// The protected resource: a Redis of its own that has one list of what was tried and one of what was accepted, each entry
// with the time of that server. Only these two are evidence.
import type { Redis } from 'ioredis';

export const ATTEMPTS = 'ledger:attempts';
export const ACCEPTED = 'ledger:accepted';

export interface Entry {
  /** The server's wall clock, milliseconds. */
  readonly atMs: number;
  readonly owner: string;
  readonly step: number;
  /** Null where there was none. */
  readonly token: number | null;
  /** Of an attempt: the owner's own wall clock then. */
  readonly wallMs: number | null;
}

/** Told before each act, by a way that no fault of a proof is on. */
export async function attempt(client: Redis, owner: string, step: number): Promise<void> {
  await client.xadd(ATTEMPTS, '*', 'owner', owner, 'step', step, 'token', '', 'wall', Date.now());
}

/** The write that must be protected, as a command. */
export function writeCommand(owner: string, step: number, token: number | undefined): readonly string[] {
  return ['XADD', ACCEPTED, '*', 'owner', owner, 'step', `${step}`, 'token', `${token ?? ''}`];
}

export async function entries(client: Redis, list: typeof ATTEMPTS | typeof ACCEPTED): Promise<readonly Entry[]> {
  const rows = await client.xrange(list, '-', '+');
  return rows.map(([id, fields]) => {
    const number = (at: number) => (fields[at] === undefined || fields[at] === '' ? null : Number(fields[at]));
    return {
      atMs: Number(id.split('-')[0]),
      owner: fields[1] ?? '',
      step: Number(fields[3]),
      token: number(5),
      wallMs: number(7),
    };
  });
}
