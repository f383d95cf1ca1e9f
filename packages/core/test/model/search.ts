/** What is searched: all that can happen, one step after the other. */
export interface Space<World, Property extends string> {
  readonly start: World;
  /** All that can happen next, with a label each. */
  next(world: World): Iterable<readonly [string, World]>;
  /** Equal for worlds between which nothing can make a difference any more. */
  encode(world: World): string;
  /** The property that a step breaks. */
  brokenBy(before: World, after: World): Property | undefined;
  /** The property that does not hold in a world that was reached; `number` counts them. */
  brokenIn?(world: World, number: number): Property | undefined;
}

export interface Found<Property extends string> {
  readonly states: number;
  readonly transitions: number;
  /** Steps from the beginning to the farthest state. */
  readonly depth: number;
  /** Whether every state was visited. */
  readonly complete: boolean;
  readonly seconds: number;
  /** The first property that fails, and a shortest way there. */
  readonly violation: { readonly property: Property; readonly trace: readonly string[] } | null;
}

/** Visits every state, up to `limit`, breadth first, so that what it finds it finds by a shortest way. */
export function search<World, Property extends string>(space: Space<World, Property>, limit: number): Found<Property> {
  const startedMs = performance.now();
  const seen = new Set<string>();
  // By the number of the state: where it came from, and by what.
  const parents: number[] = [];
  const labels: string[] = [];
  let transitions = 0;
  let depth = 0;
  type Layer = { readonly world: World; readonly number: number }[];

  const add = (world: World, parent: number, label: string, layer: Layer): void => {
    const code = space.encode(world);
    if (seen.has(code)) return;
    seen.add(code);
    layer.push({ world, number: parents.length });
    parents.push(parent);
    labels.push(label);
  };
  const traceTo = (number: number, last?: string): readonly string[] => {
    const trace = last === undefined ? [] : [last];
    for (let each = number; each > 0; each = parents[each] ?? 0) trace.unshift(labels[each] ?? '');
    return trace;
  };
  const found = (complete: boolean, violation: Found<Property>['violation']): Found<Property> => {
    const seconds = (performance.now() - startedMs) / 1000;
    return { states: seen.size, transitions, depth, complete, seconds, violation };
  };

  let layer: Layer = [];
  add(space.start, 0, '', layer);
  for (; layer.length > 0; depth++) {
    const next: Layer = [];
    for (const { world, number } of layer) {
      const missing = space.brokenIn?.(world, number);
      if (missing !== undefined) return found(false, { property: missing, trace: traceTo(number) });
      for (const [label, after] of space.next(world)) {
        transitions++;
        const broken = space.brokenBy(world, after);
        if (broken !== undefined) return found(false, { property: broken, trace: traceTo(number, label) });
        add(after, number, label, next);
      }
      if (seen.size >= limit) return found(false, null);
    }
    layer = next;
  }
  return found(true, null);
}
