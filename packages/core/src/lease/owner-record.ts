import { ownerLine, type OwnerIdentity } from '../owner.ts';
import type { Vitals } from './vitals.ts';

/** What a manager writes of its process into the records of its leases. */
export class OwnerRecord {
  /** One readable line. */
  readonly line: string;
  readonly #identity: OwnerIdentity;
  readonly #vitals: Vitals;
  #written: { readonly line: string; readonly json: string };
  #number = -1;

  constructor(identity: OwnerIdentity, vitals: Vitals) {
    this.line = ownerLine(identity);
    this.#identity = identity;
    this.#vitals = vitals;
    this.#written = { line: this.line, json: '' };
  }

  /** The line, and the identity with the vitals as JSON: the same object as long as the edition of the vitals is. */
  get current(): { readonly line: string; readonly json: string } {
    const { number, vitals } = this.#vitals.edition();
    if (number !== this.#number) {
      this.#number = number;
      this.#written = { line: this.line, json: JSON.stringify({ ...this.#identity, vitals: tidied(vitals) }) };
    }
    return this.#written;
  }
}

/** No more digits than anybody reads. */
function tidied(vitals: object): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(vitals).map(([name, value]: [string, unknown]) => [
      name,
      typeof value === 'number' ? Math.round(value * 1000) / 1000 : value,
    ]),
  );
}
