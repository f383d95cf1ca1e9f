/** Promises whose ends a test has in hand. */
export class Gate<T = void> {
  readonly opened: Promise<T>;
  open: (value: T) => void = () => {};

  constructor() {
    this.opened = new Promise((resolve) => (this.open = resolve));
  }
}
