import { LeaseLostError, type StaleTokenError } from '../../src/errors.ts';
import type { Grant, Holding } from '../../src/fence/fence.ts';

export const grant: Grant = { resource: 'shop/pears', fencingToken: 1_700_000_000_000_000, leaseId: 'a1b2' };

/** A lease as a client sees it, with switches. */
export class Held implements Holding {
  readonly grant: Grant = grant;
  readonly refusals: StaleTokenError[] = [];
  readonly controller: AbortController = new AbortController();
  readonly signal: AbortSignal = this.controller.signal;
  isHeld = true;
  isActivated = true;
  asked = 0;

  readonly holding: Holding['holding'] = {
    mayWrite: () => this.isActivated,
    refused: (error) => {
      this.refusals.push(error);
      this.isHeld = false;
    },
  };

  assertHeld(): void {
    this.asked++;
    if (!this.isHeld) throw new LeaseLostError('pears', { reason: 'expired', ...this.grant });
  }
}

/** What `fetch` was called with, and what it answers. */
export class FakeFetch {
  readonly requests: Request[] = [];
  readonly inits: RequestInit[] = [];
  answer: (request: Request) => Response | Promise<Response>;

  constructor(answer: FakeFetch['answer'] = () => new Response('done')) {
    this.answer = answer;
  }

  readonly fetch: typeof fetch = async (input, init = {}) => {
    const request = new Request(input, init);
    this.inits.push(init);
    this.requests.push(request);
    return this.answer(request);
  };

  get headers(): Headers {
    return (this.requests.at(-1) as Request).headers;
  }
}
