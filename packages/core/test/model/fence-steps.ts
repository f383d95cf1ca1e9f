import type { FenceRules } from './fence-rules.ts';
import type { Space } from './search.ts';
import {
  fenceBeginning,
  IDLE,
  type Agent,
  type FenceBounds,
  type FenceProperty,
  type FenceWorld,
} from './fence-world.ts';

type Step = readonly [string, FenceWorld];

/** All that can happen to agents, store and resource. */
export class FenceSpace implements Space<FenceWorld, FenceProperty> {
  readonly start: FenceWorld;
  readonly #rules: FenceRules;
  readonly #bounds: FenceBounds;
  readonly #checked: readonly FenceProperty[];

  constructor(rules: FenceRules, bounds: FenceBounds, checked: readonly FenceProperty[]) {
    this.start = fenceBeginning(bounds);
    this.#rules = rules;
    this.#bounds = bounds;
    this.#checked = checked;
  }

  *next(world: FenceWorld): Iterable<Step> {
    if (world.losses > 0) {
      for (let issued = 0; issued < world.issued; issued++) {
        yield [
          `the store loses its data and goes on from token ${issued}`,
          { ...world, issued, losses: world.losses - 1 },
        ];
      }
    }
    const sound = world.broken.length === 0 ? world : { ...world, broken: [] };
    for (const [index, agent] of world.agents.entries()) yield* this.#stepsOf(sound, index, agent);
  }

  /** Equal for worlds that differ only in which agent is which, or in what no agent can come to feel any more. */
  encode(world: FenceWorld): string {
    const { issued, losses, highest, version } = world;
    const agents = world.agents.map(({ phase, run, token, floor, saw, accepted, over }, index) => {
      // The next of its grants may be taken for the highest, if it is not told apart by its leaseId.
      const identity = this.#rules.identity(index, phase === 'idle' ? run + 1 : run);
      const known = this.#rules.identity(index, 0) === this.#rules.identity(index, 1) ? identity : '';
      const its = highest?.leaseId === identity ? 'H' : '';
      return `${known}${phase[0]}${phase[2]}${run}${its},${token},${floor},${saw},${accepted ? 1 : 0}${over ? 1 : 0}`;
    });
    return `${issued},${losses},${highest?.fencingToken ?? 0},${version}|${agents.toSorted().join('|')}`;
  }

  brokenBy(_: FenceWorld, { broken }: FenceWorld): FenceProperty | undefined {
    return broken.find((property) => this.#checked.includes(property));
  }

  *#stepsOf(world: FenceWorld, index: number, agent: Agent): Iterable<Step> {
    const name = String.fromCodePoint(65 + index);
    const token = Math.max(world.issued, agent.floor) + 1;
    if (agent.run < this.#bounds.acquisitions && token <= this.#bounds.tokens) {
      const acquired: Agent = { ...IDLE, phase: 'acquired', run: agent.run + 1, token };
      yield [`${name} acquires: token ${token}`, put({ ...world, issued: token }, index, acquired)];
    }
    const { version } = world;
    const mayRead = agent.phase === (this.#rules.activates ? 'activated' : 'acquired') || agent.phase === 'read';
    switch (agent.phase) {
      case 'acquired':
        if (!this.#rules.activates) break;
        yield this.#ask(world, index, `${name} activates`, (admitted) => put(admitted, index, { phase: 'activated' }));
        break;
      case 'read':
        if (version === this.#bounds.versions) break;
        if (this.#rules.isAtomic) {
          const label = `${name} writes ${agent.saw + 1} over ${version}`;
          yield this.#ask(world, index, label, (admitted) => write(admitted, index));
        } else {
          yield this.#ask(world, index, `${name} is checked`, (admitted) => put(admitted, index, { phase: 'checked' }));
        }
        break;
      case 'checked':
        if (version === this.#bounds.versions) break;
        yield [`${name} writes ${agent.saw + 1} over ${version}`, write(accept(world, index), index)];
        break;
      default:
    }
    if (mayRead && (agent.phase !== 'read' || agent.saw !== version)) {
      yield [`${name} reads ${version}`, put(world, index, { phase: 'read', saw: version })];
    }
  }

  /** An operation comes to the fence; `then` is what it does if it is admitted. */
  #ask(world: FenceWorld, index: number, label: string, then: (admitted: FenceWorld) => FenceWorld): Step {
    const { token, run } = at(world, index);
    const { highest } = world;
    const leaseId = this.#rules.identity(index, run);
    if (!this.#rules.admits(highest, { resource: 'r', fencingToken: token, leaseId })) {
      const floor = highest?.fencingToken ?? 0;
      return [`${label}: refused, the highest is ${floor}`, put(world, index, { ...IDLE, run, floor })];
    }
    const raised: FenceWorld = { ...world, highest: { fencingToken: token, leaseId } };
    return [`${label}: admitted`, then(accept(raised, index))];
  }
}

function at({ agents }: FenceWorld, index: number): Agent {
  const agent = agents[index];
  if (agent === undefined) throw new Error(`there is no agent ${index}`);
  return agent;
}

function put(world: FenceWorld, index: number, changes: Partial<Agent>): FenceWorld {
  return { ...world, agents: world.agents.with(index, { ...at(world, index), ...changes }) };
}

/** Something of this agent's grant takes effect, and ends the run of whoever was before it. */
function accept(world: FenceWorld, index: number): FenceWorld {
  const agents = world.agents.map((agent, each) => {
    if (each === index) return { ...agent, accepted: true };
    return agent.accepted ? { ...agent, over: true } : agent;
  });
  const isTorn = at(world, index).over;
  return { ...world, agents, broken: isTorn ? [...world.broken, 'unbroken-runs'] : world.broken };
}

function write(world: FenceWorld, index: number): FenceWorld {
  const isLost = at(world, index).saw !== world.version;
  const version = world.version + 1;
  return {
    ...put(world, index, { phase: 'read', saw: version }),
    version,
    broken: isLost ? [...world.broken, 'no-lost-update'] : world.broken,
  };
}
