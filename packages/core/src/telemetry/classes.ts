const MOST = 100;
const REST = 'other';

/** The part of a resource's name that is a metric's label: what stands before the first `:`. */
export function classOf(resource: string): string {
  const end = resource.indexOf(':');
  return end <= 0 ? resource : resource.slice(0, end);
}

/**
 * Keeps the number of a label's values bounded, whatever the names are: the first hundred classes have a value of their
 * own, all later ones are `other`. A function that throws or gives no text is `other`, too.
 */
export class Classes {
  readonly #of: (resource: string) => string;
  readonly #seen = new Set<string>();

  constructor(of: (resource: string) => string) {
    this.#of = of;
  }

  label(resource: string): string {
    let name: unknown;
    try {
      name = this.#of(resource);
      // An async function is none of ours; what it rejects with must not end the process.
      if (name instanceof Promise) name.catch(() => {});
    } catch {
      return REST;
    }
    if (typeof name !== 'string' || name === '') return REST;
    if (this.#seen.has(name)) return name;
    if (this.#seen.size >= MOST) return REST;
    this.#seen.add(name);
    return name;
  }
}
