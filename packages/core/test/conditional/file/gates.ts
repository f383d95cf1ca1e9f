import type * as fsp from 'node:fs/promises';

/** Calls of the file system that wait until a test lets them go on. */
export class Gates {
  readonly #gates: { readonly step: RegExp; readonly reached: () => void; readonly open: Promise<void> }[] = [];
  /** Every step so far, such as `rename x.fence.data x`. */
  readonly steps: string[] = [];

  /** Holds the next step that matches; `reached` resolves when it has come, and `open` lets it go on. */
  hold(step: RegExp): { readonly reached: Promise<void>; open(): void } {
    let reached = (): void => {};
    let open = (): void => {};
    const isReached = new Promise<void>((resolve) => (reached = resolve));
    this.#gates.push({ step, reached, open: new Promise((resolve) => (open = resolve)) });
    return { reached: isReached, open };
  }

  async pass(step: string): Promise<void> {
    this.steps.push(step);
    const index = this.#gates.findIndex((gate) => gate.step.test(step));
    if (index < 0) return;
    const [gate] = this.#gates.splice(index, 1);
    gate?.reached();
    await gate?.open;
  }

  /** The calls that open, make and move files, behind these gates. */
  wrap(sound: typeof fsp): typeof fsp {
    const name = (path: unknown): string => String(path).replace(/^.*\//, '');
    return {
      ...sound,
      open: async (path, flags, mode) => {
        await this.pass(`open ${name(path)}`);
        return sound.open(path, flags, mode);
      },
      link: async (from, to) => {
        await this.pass(`link ${name(from)} ${name(to)}`);
        return sound.link(from, to);
      },
      unlink: async (path) => {
        await this.pass(`unlink ${name(path)}`);
        return sound.unlink(path);
      },
      rename: async (from, to) => {
        await this.pass(`rename ${name(from)} ${name(to)}`);
        return sound.rename(from, to);
      },
    };
  }
}
