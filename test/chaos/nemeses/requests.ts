import type { Stage } from '../stage.ts';

/** COMMIT in the simple or in the extended protocol; not the isolation level. */
// oxlint-disable-next-line no-control-regex -- bytes of the protocol
export const COMMIT: RegExp = /(?:[\0-\x1f]|; )commit\0/i;

/** Calls about leases, whatever else goes the same way. */
export function leaseCall(stage: Stage): RegExp {
  return new RegExp(String.raw`evalsha[\s\S]*\r\n${prefixOf(stage)}`, 'i');
}

/** Calls by which one becomes owner, or waits for that: they alone name how they wait. */
export function acquireCall(stage: Stage): RegExp {
  return new RegExp(String.raw`evalsha[\s\S]*\r\n${prefixOf(stage)}[\s\S]*\r\n(?:try|wait|park)\r\n`, 'i');
}

/** What the keys of all leases begin with. */
function prefixOf(stage: Stage): string {
  const [prefix = ''] = stage.keyOf('x').split('{');
  return prefix.replaceAll(/[.*+?^${}()|[\]\\]/g, String.raw`\$&`);
}
