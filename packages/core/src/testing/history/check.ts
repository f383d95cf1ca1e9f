import { breakGlassInvariants } from './break-glass.ts';
import { countsOf, type Counts } from './counts.ts';
import { findingOf, type Finding, type Invariant, type InvariantId } from './finding.ts';
import { guardInvariants } from './guard.ts';
import type { History } from './history.ts';
import { lingeringInvariants } from './lingering.ts';
import { livenessInvariants } from './liveness.ts';
import { settingsOf, type CheckOptions } from './options.ts';
import { ownerInvariants } from './owner.ts';
import { storeInvariants } from './store.ts';
import { validityInvariants } from './validity.ts';
import { View } from './view.ts';

/** Every rule, in the order of its number. */
export const invariants: readonly Invariant[] = [
  ...guardInvariants,
  ...ownerInvariants,
  ...storeInvariants,
  ...breakGlassInvariants,
  ...livenessInvariants,
  ...lingeringInvariants,
  ...validityInvariants,
].sort((a, b) => rankOf(a.id) - rankOf(b.id));

export interface HistoryVerdict {
  /** Empty if all is as it must be. */
  readonly findings: readonly Finding[];
  /** Rules that cannot be asked for under the faults of this run, and why. */
  readonly waived: readonly { readonly invariant: InvariantId; readonly why: string }[];
  readonly counts: Counts;
}

/** Judges a run by every rule that can be asked for under the faults that it met. Sorting and looking through, no search. */
export function checkHistory(history: History, options: CheckOptions = {}): HistoryVerdict {
  const view = new View(history, settingsOf(options));
  const findings: Finding[] = [];
  const waived: { invariant: InvariantId; why: string }[] = [];
  for (const invariant of invariants) {
    if (invariant.id.startsWith('V') && !view.settings.validity) continue;
    const why = invariant.waived?.(view) ?? null;
    if (why !== null) waived.push({ invariant: invariant.id, why });
    else for (const breach of invariant.breaches(view)) findings.push(findingOf(invariant, breach));
  }
  return { findings, waived, counts: countsOf(view) };
}

function rankOf(id: InvariantId): number {
  return 'SLV'.indexOf(id.charAt(0)) * 100 + Number(id.slice(1));
}
