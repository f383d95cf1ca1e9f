/** What a promise came to. */
export type Settled<T> = { readonly value: T } | { readonly error: unknown };

export async function settled<T>(work: Promise<T>): Promise<Settled<T>> {
  try {
    return { value: await work };
  } catch (error) {
    return { error };
  }
}
