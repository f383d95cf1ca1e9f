/** A promise with its ends outside, as `Promise.withResolvers` of later versions of Node. */
export class Deferred<T> {
  readonly promise: Promise<T>;
  readonly resolve: (value: T) => void;
  readonly reject: (reason: Error) => void;

  constructor() {
    let ends: Pick<Deferred<T>, 'resolve' | 'reject'> | undefined;
    this.promise = new Promise<T>((resolve, reject) => (ends = { resolve, reject }));
    ({ resolve: this.resolve, reject: this.reject } = ends as unknown as Pick<Deferred<T>, 'resolve' | 'reject'>);
  }
}
