import { systemClock } from '../../clock.ts';
import { TIMED_OUT, within } from '../../lease/within.ts';
import type { OwnerIdentity } from '../../owner.ts';
import { messageOf } from '../../thrown.ts';
import type { OwnerFinding, OwnerProbe, OwnerState } from '../probe.ts';
import { allByHand } from './by-hand.ts';
import { factsOf } from './facts.ts';
import { plain } from './words.ts';

/**
 * Asks all probes at once whether the owner's process still exists, and makes one answer of theirs. Who has seen it, alive
 * or stopped, is believed before whoever says that it is gone, and that before whoever cannot tell. `stopped` is said
 * rather than `alive`: what looks at a whole container does not see that its process stands still. Who disagrees is told in
 * the caveat. Never rejects: a probe that fails, or has not answered after `timeoutMs`, counts as `unverifiable`.
 *
 * @param owner null: the record has none
 * @param options.timeoutMs for all together, default 5000
 */
export async function probeOwner(
  owner: OwnerIdentity | null,
  probes: readonly OwnerProbe[],
  options: { readonly timeoutMs?: number } = {},
): Promise<OwnerFinding> {
  if (owner === null) return { ...unverifiable('none', 'the record does not say who the owner is'), byHand: [] };
  const { timeoutMs = 5000 } = options;
  const end = new AbortController();
  try {
    const asked = await Promise.all(probes.map((probe) => ask(probe, owner, end, timeoutMs)));
    const findings = asked.filter((finding) => finding !== undefined);
    const byHand = new Set([...allByHand(factsOf(owner)), ...findings.flatMap((finding) => finding.byHand)]);
    return { ...together(findings), byHand: [...byHand] };
  } finally {
    end.abort();
  }
}

async function ask(
  probe: OwnerProbe,
  owner: OwnerIdentity,
  end: AbortController,
  timeoutMs: number,
): Promise<OwnerFinding | undefined> {
  const late = `did not answer within ${timeoutMs} ms`;
  try {
    const answer = Promise.resolve(probe.probe(owner, { signal: end.signal }));
    answer.catch(() => {}); // it may come when nobody waits any more
    const finding = await within(systemClock, answer, timeoutMs);
    if (finding === TIMED_OUT) {
      end.abort(); // all have had the same time
      return unverifiable(probe.name, late);
    }
    if (finding === undefined || Object.hasOwn(RANK, finding.state)) return finding;
    return unverifiable(probe.name, `answered with a state that is none: ${plain(String(finding.state))}`);
  } catch (error) {
    return unverifiable(probe.name, end.signal.aborted ? late : `failed: ${plain(messageOf(error))}`);
  }
}

const RANK: Readonly<Record<OwnerState, number>> = { stopped: 3, alive: 2, gone: 1, unverifiable: 0 };

function together(findings: readonly OwnerFinding[]): OwnerFinding {
  const ranked = findings.toSorted((a, b) => RANK[b.state] - RANK[a.state]);
  const [best] = ranked;
  if (best === undefined) return unverifiable('none', 'there is nothing here that can look for such an owner');
  const same = ranked.filter(({ state }) => state === best.state);
  const knowing = ranked.filter(({ state }) => state !== best.state && state !== 'unverifiable');
  const detail = same.length === 1 ? best.detail : same.map(({ probe, detail }) => `${probe}: ${detail}`).join('; ');
  const others = knowing.map(({ probe, state, detail }) => `${probe} says ${state}: ${detail}`);
  const caveats = new Set([...others, ...same.map(({ caveat }) => caveat)].filter((caveat) => caveat !== ''));
  return {
    state: best.state,
    probe: same.map(({ probe }) => probe).join(', '),
    detail,
    caveat: [...caveats].join('; '),
    byHand: [],
    endByHand: same.find(({ endByHand }) => endByHand !== undefined)?.endByHand,
  };
}

function unverifiable(probe: string, detail: string): OwnerFinding {
  return { state: 'unverifiable', probe, detail, caveat: '', byHand: [] };
}
