import { adoptionInvariants } from './adoption.ts';
import { bodyInvariants } from './body.ts';
import { bookInvariants } from './book.ts';
import { breakGlassInvariants } from './break-glass.ts';
import { countsOf, type Counts } from './counts.ts';
import { deadlineInvariants } from './deadline.ts';
import { findingOf, type Finding, type Invariant, type InvariantId } from './finding.ts';
import { grantInvariants } from './grant.ts';
import { guardInvariants } from './guard.ts';
import type { History } from './history.ts';
import { holdInvariants } from './hold.ts';
import { lingeringInvariants } from './lingering.ts';
import { livenessInvariants } from './liveness.ts';
import { settingsOf, type CheckOptions } from './options.ts';
import { ownerInvariants } from './owner.ts';
import { quarantineInvariants } from './quarantine.ts';
import { revocationInvariants } from './revocation.ts';
import { storeInvariants } from './store.ts';
import { tickInvariants } from './tick.ts';
import { turnInvariants } from './turn.ts';
import { validityInvariants } from './validity.ts';
import { View } from './view.ts';
import { withdrawalInvariants } from './withdrawal.ts';

/** Every rule, in the order of its number. */
export const invariants: readonly Invariant[] = [
  ...guardInvariants,
  ...ownerInvariants,
  ...storeInvariants,
  ...tickInvariants,
  ...breakGlassInvariants,
  ...revocationInvariants,
  ...holdInvariants,
  ...deadlineInvariants,
  ...adoptionInvariants,
  ...bodyInvariants,
  ...turnInvariants,
  ...quarantineInvariants,
  ...bookInvariants,
  ...grantInvariants,
  ...withdrawalInvariants,
  ...livenessInvariants,
  ...lingeringInvariants,
  ...validityInvariants,
].sort((a, b) => rankOf(a.id) - rankOf(b.id));

export interface HistoryVerdict {
  /** Empty if all is as it must be. */
  readonly findings: readonly Finding[];
  /** Rules that could not be asked for, in whole or where a fault had struck, and why. */
  readonly waived: readonly { readonly invariant: InvariantId; readonly why: string }[];
  readonly counts: Counts;
}

/** Judges a run by every rule that can be asked for under the faults that it met. Sorting and looking through, no search. */
export function checkHistory(history: History, options: CheckOptions = {}): HistoryVerdict {
  const view = new View(history, settingsOf(options));
  const findings: Finding[] = [];
  const waived: { invariant: InvariantId; why: string }[] = [];
  for (const invariant of invariants) {
    const { validity } = view.settings;
    if (invariant.id.startsWith('V') && validity !== true && (invariant.id !== 'V1' || validity === false)) continue;
    const why = invariant.waived?.(view) ?? null;
    if (why !== null) waived.push({ invariant: invariant.id, why });
    else {
      const excuses = new Set<string>();
      for (const breach of invariant.breaches(view)) {
        if (breach.excuse === undefined) findings.push(findingOf(invariant, breach));
        else excuses.add(breach.excuse);
      }
      for (const excuse of excuses) waived.push({ invariant: invariant.id, why: excuse });
    }
  }
  return { findings, waived, counts: countsOf(view) };
}

function rankOf(id: InvariantId): number {
  return 'SLV'.indexOf(id.charAt(0)) * 100 + Number(id.slice(1));
}
