import { Lingerer } from '../../src/lease/lingerer.ts';
import { Tenure } from '../../src/lease/tenure.ts';
import type { LeaseStore } from '../../src/store/store.ts';
import type { SeededBug } from './bug.ts';
import { replacing } from './replacing.ts';

const { keep, take } = Lingerer.prototype;
const { confirmation } = Tenure.prototype;

/** A store whose owners do not hear that somebody asks for what they have. */
function deaf(store: LeaseStore): LeaseStore {
  return new Proxy(store, {
    get(target, name) {
      const value: unknown = Reflect.get(target, name, target);
      if (name !== 'subscribe') return value;
      const subscribe: LeaseStore['subscribe'] = (channel, listener) =>
        target.subscribe(channel, (message) => {
          if (message.kind !== 'wanted') listener(message);
        });
      return subscribe;
    },
  });
}

/** Errors with a lease that lingers. */
export const lingerBugs: readonly SeededBug[] = [
  {
    does: 'a lease that lingers and goes to the next run with the token that it had',
    foundBy: 'S14',
    engine: replacing(Lingerer.prototype, 'take', function same(this: Lingerer, resource, settings) {
      const last = take.call(this, resource, settings);
      if (last === undefined) return undefined;
      const grant = { ...last.grant, fencingToken: last.grant.fencingToken - 1 };
      const { ownerJson, spare } = last;
      return { grant, ownerJson, spare, confirmation: () => last.confirmation() } as Tenure;
    }),
  },
  {
    does: 'a lease that lingers and is trusted anew by each run that has it',
    foundBy: 'S6',
    engine: replacing(Tenure.prototype, 'confirmation', function anew(this: Tenure) {
      const { stamp, windowMs } = confirmation.call(this);
      const { extensionAgeMs } = this.ages();
      const { monotonicMs, wallMs } = stamp;
      return {
        stamp: { ...stamp, monotonicMs: monotonicMs + extensionAgeMs, wallMs: wallMs + extensionAgeMs },
        windowMs,
      };
    }),
  },
  {
    does: 'an owner that does not heed that its lease is wanted, and lets it linger anew after each run',
    foundBy: 'L8',
    hand: deaf,
    engine: replacing(Lingerer.prototype, 'keep', function anew(this: Lingerer, tenure, outcome) {
      if (tenure.spare !== undefined) tenure.spare.untilMs = Infinity;
      return keep.call(this, tenure, outcome);
    }),
  },
];
