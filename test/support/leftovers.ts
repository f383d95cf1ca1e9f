/** Something that a test started and must have ended when it is over. */
export interface Leftover {
  readonly what: string;
  end(): Promise<void>;
}

/** `test`: ended when the test is over. `file`: for beforeAll; ended when the last test of the file is over. */
export type Scope = 'test' | 'file';

const open = new Map<Leftover, Scope>();

export function opened(thing: Leftover, scope: Scope = 'test'): void {
  open.set(thing, scope);
}

export function closed(thing: Leftover): void {
  open.delete(thing);
}

/** Ends what is still open, the newest first, and says what it was. */
export async function endLeftovers(scope: Scope): Promise<string[]> {
  const left = [...open].filter(([, its]) => its === scope).map(([thing]) => thing);
  for (const thing of left.toReversed()) {
    open.delete(thing);
    await thing.end();
  }
  return left.map(({ what }) => what);
}
