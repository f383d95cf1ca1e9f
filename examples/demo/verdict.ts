import colors from 'picocolors';

import type { Audit } from './audit.ts';
import { TTL_MS } from './messages.ts';
import { seconds, type Facts } from './story.ts';

/** A row of the closing table; `isRight` is whether it is as this variant of the demo promises. */
interface Row {
  readonly what: string;
  readonly value: string;
  readonly isRight: boolean;
}

/** Prints the closing table and returns whether everything is as promised. */
export function closingTable(facts: Facts, audit: Audit, fenced: boolean): boolean {
  const { payments, done, killed, stopped, refusals, staleWrites, faults } = facts;
  const rows: Row[] = [
    { what: 'jobs done', value: `${done.size} of ${payments.size}`, isRight: done.size === payments.size },
    { what: 'cron ticks run', value: String(audit.ticks), isRight: audit.ticks > 0 },
    { what: 'cron ticks doubled', value: String(audit.doubledTicks), isRight: audit.doubledTicks === 0 },
    {
      what: 'owners killed in mid-job',
      value: killed === undefined ? '0' : `1 (${killed})`,
      isRight: killed !== undefined,
    },
    {
      what: 'owners stopped past their lease',
      value:
        stopped === undefined ? '0' : `1 (${stopped.name}: ${seconds(stopped.forMs)}; the lease is ${seconds(TTL_MS)})`,
      isRight: stopped !== undefined && stopped.forMs > TTL_MS,
    },
    { what: 'stale writes refused', value: String(refusals), isRight: fenced ? refusals > 0 : true },
    { what: 'stale writes let in', value: String(staleWrites), isRight: fenced === (staleWrites === 0) },
    {
      what: 'lost updates',
      value: audit.lost.length === 0 ? '0' : `${audit.lost.length} (${audit.lost.join(', ')})`,
      isRight: fenced === (audit.lost.length === 0),
    },
    { what: 'doubled updates', value: String(audit.doubled.length), isRight: audit.doubled.length === 0 },
    {
      what: 'sum of all balances',
      value: `${audit.balance}, should be ${audit.expected}`,
      isRight: fenced === (audit.balance === audit.expected),
    },
    ...faults.map((fault) => ({ what: 'fault', value: fault, isRight: false })),
  ];
  const width = Math.max(...rows.map(({ what }) => what.length));
  console.log();
  for (const { what, value, isRight } of rows) {
    const line = `  ${what.padEnd(width)}  ${value}`;
    console.log(isRight ? line : colors.red(`${line}   ← not as promised`));
  }
  return rows.every(({ isRight }) => isRight);
}
