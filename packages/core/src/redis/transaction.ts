import { ConfigError } from '../errors.ts';
import { show } from '../show.ts';

// Lua puts the arguments of a command on its stack, which holds 8,000 values; and a write is one command to the client,
// which holds up everything else on its connection.
const MAX_ARGUMENTS = 7000;
const MAX_WORDS = 30_000;

/** What a command of a fenced write will have answered. */
export interface Handle<T = unknown> {
  /**
   * The reply: strings (a status such as `OK` too), whole numbers, null and lists of these, as Redis gives them to scripts
   * whatever the protocol of the client: HGETALL is a flat list, a score is a string. Text only; and a whole number beyond
   * 2^53 loses its last digits, so read such a one with GET, as a string.
   *
   * Throws `ConfigError` until the write has resolved, and for ever if it was refused; and `FenceUnavailableError`, outcome
   * `written`, if the write was carried out and its replies were lost with a connection.
   */
  readonly value: T;
}

/** What the body of a fenced write sees. */
export interface RedisTx {
  /**
   * Adds a command to the write. It is carried out after the body, together with the guard and in the order of the calls, so
   * its reply comes in a handle and not in a promise: awaiting it inside the body would wait for the body itself. Throws
   * `ConfigError` after the body. Arguments are texts and numbers; encode what is binary, in base64 for instance.
   */
  call<T = unknown>(command: string, ...args: readonly (string | number)[]): Handle<T>;
}

class Reply<T> implements Handle<T> {
  #value: { readonly of: T } | undefined;
  #loss: Error | undefined;
  readonly #command: string;

  constructor(command: string) {
    this.#command = command;
  }

  settle(value: T): void {
    this.#value = { of: value };
  }

  lose(loss: Error): void {
    this.#loss = loss;
  }

  get value(): T {
    if (this.#loss !== undefined) throw this.#loss;
    if (this.#value === undefined) {
      throw new ConfigError(
        'value',
        `the reply to ${this.#command} is not there yet: the commands of a fenced write run when its body has returned; read .value after \`await fence.write(…)\``,
      );
    }
    return this.#value.of;
  }

  /** Used as a number or a text, it is its value; before there is one that is an error, and not NaN in the database. */
  [Symbol.toPrimitive](): unknown {
    return this.value;
  }

  toJSON(): unknown {
    return this.#value?.of;
  }
}

/** The commands that the body of one write has asked for. */
export class Transaction implements RedisTx {
  readonly commands: string[][] = [];
  readonly #replies: Reply<unknown>[] = [];
  #over = false;
  #words = 0;

  call<T = unknown>(command: string, ...args: readonly (string | number)[]): Handle<T> {
    if (this.#over) throw new ConfigError('tx', 'this write is over; use tx only inside its body, and await all of it');
    if (typeof command !== 'string' || command === '') {
      throw new ConfigError('tx.call', `the command is ${show(command)}; give its name`);
    }
    this.#words += args.length + 1;
    if (this.#words > MAX_WORDS) {
      throw new ConfigError('tx.call', `the write has more than ${MAX_WORDS} words; divide it into several writes`);
    }
    const words = wordsOf('tx.call', `an argument of ${command}`, args);
    const reply = new Reply<T>(command);
    this.commands.push([command, ...words]);
    this.#replies.push(reply);
    return reply;
  }

  async run<T>(body: (tx: RedisTx) => T | Promise<T>): Promise<T> {
    try {
      return await body(this);
    } finally {
      this.#over = true;
    }
  }

  settle(values: readonly unknown[]): void {
    for (const [index, reply] of this.#replies.entries()) reply.settle(values[index]);
  }

  lose(loss: Error): void {
    for (const reply of this.#replies) reply.lose(loss);
  }
}

/** Arguments as Redis takes them. Throws `ConfigError` for what is neither a text nor a number, and for too many. */
export function wordsOf(option: string, what: string, args: readonly unknown[]): string[] {
  if (args.length > MAX_ARGUMENTS) {
    throw new ConfigError(option, `${what} is one of ${args.length}, more than ${MAX_ARGUMENTS}; divide them`);
  }
  return args.map((arg) => {
    if (typeof arg === 'string' || (typeof arg === 'number' && !Number.isNaN(arg))) return String(arg);
    const hint = arg instanceof Uint8Array ? 'encode bytes as text' : 'give strings or numbers';
    throw new ConfigError(option, `${what} is ${show(arg)}; ${hint}`);
  });
}
