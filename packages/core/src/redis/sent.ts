import type { LeaseholdError } from '../errors.ts';
import type { StoreCall } from '../store/store.ts';
import type { Due } from '../deadlines.ts';
import type { Script, ScriptArgs } from './script.ts';

/** A call under way. */
export class Sent implements Due {
  slot = -1;
  sentMs = 0;
  settled = false;
  withText = false;
  readonly called: Script;
  readonly args: ScriptArgs;
  readonly call: StoreCall;
  readonly #connection: { expired(sent: Sent): void };
  readonly #answer: (reply: unknown) => void;
  readonly #fail: (error: LeaseholdError) => void;

  constructor(
    connection: { expired(sent: Sent): void },
    called: Script,
    args: ScriptArgs,
    call: StoreCall,
    answer: (reply: unknown) => void,
    fail: (error: LeaseholdError) => void,
  ) {
    this.#connection = connection;
    this.called = called;
    this.args = args;
    this.call = call;
    this.#answer = answer;
    this.#fail = fail;
  }

  answer(reply: unknown): void {
    this.#answer(reply);
    this.settled = true;
  }

  fail(error: LeaseholdError): void {
    if (this.settled) return;
    this.settled = true;
    this.#fail(error);
  }

  expire(): void {
    if (!this.settled) this.#connection.expired(this);
  }
}
