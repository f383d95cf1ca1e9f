import { FIRST_BALANCE, type Ledger } from './ledger.ts';
import type { Payment } from './messages.ts';

/** The ledger against what was ordered. */
export interface Audit {
  /** Jobs that were done, but are in no balance any more. */
  readonly lost: readonly string[];
  /** Jobs that are in a balance twice. */
  readonly doubled: readonly string[];
  readonly balance: number;
  readonly expected: number;
  readonly ticks: number;
  readonly doubledTicks: number;
}

export async function audit(ledger: Ledger, payments: ReadonlyMap<string, Payment>): Promise<Audit> {
  const names = [...new Set([...payments.values()].map(({ account }) => account))];
  const accounts = await Promise.all(names.map((name) => ledger.read(name)));
  const applied = accounts.flatMap((account) => account.applied);
  const notes = await ledger.notes();
  return {
    lost: [...payments.keys()].filter((job) => !applied.includes(job)),
    doubled: duplicates(applied),
    balance: sum(accounts.map(({ balance }) => balance)),
    expected: names.length * FIRST_BALANCE + sum([...payments.values()].map(({ amount }) => amount)),
    ticks: notes.length,
    doubledTicks: duplicates(notes).length,
  };
}

function duplicates(items: readonly string[]): string[] {
  return items.filter((item, index) => items.indexOf(item) !== index);
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, number) => total + number, 0);
}
