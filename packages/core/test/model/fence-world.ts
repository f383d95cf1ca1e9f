/**
 * A state of the model of the fence: the store that gives tokens, the agents that hold them, and the resource behind its
 * fence. There is no time in it: an agent may be paused anywhere for any time, its lease may have run out at any moment,
 * and it never looks.
 */
export interface FenceWorld {
  /** The last token that the store remembers. */
  readonly issued: number;
  /** Losses of the store's data that are left. */
  readonly losses: number;
  readonly highest: { readonly fencingToken: number; readonly leaseId: string } | null;
  /** How often the resource has been written. */
  readonly version: number;
  readonly agents: readonly Agent[];
  /** What the step that led here broke. */
  readonly broken: readonly FenceProperty[];
}

/** `checked`: the fence has let its write pass, which is still to come. */
export interface Agent {
  readonly phase: 'idle' | 'acquired' | 'activated' | 'read' | 'checked';
  /** Acquisitions so far; a grant is known by its agent and their number. */
  readonly run: number;
  readonly token: number;
  /** What a refusal has told it, for its next acquisition. */
  readonly floor: number;
  /** The version that it has read, or written. What it writes is one more. */
  readonly saw: number;
  /** Something of its present grant was accepted, and since then something of another. */
  readonly accepted: boolean;
  readonly over: boolean;
}

/**
 * `no-lost-update`: nobody overwrites a version that it has not seen. `unbroken-runs`: what is accepted of one grant comes
 * in one unbroken run.
 */
export type FenceProperty = 'no-lost-update' | 'unbroken-runs';

export interface FenceBounds {
  /** The first two are of one process, the others have one each. */
  readonly agents: number;
  /** Of each agent. */
  readonly acquisitions: number;
  readonly tokens: number;
  readonly versions: number;
  readonly losses: number;
}

export const IDLE: Agent = { phase: 'idle', run: 0, token: 0, floor: 0, saw: 0, accepted: false, over: false };

export function fenceBeginning({ agents, losses }: FenceBounds): FenceWorld {
  const all = Array.from({ length: agents }, () => IDLE);
  return { issued: 0, losses, highest: null, version: 0, agents: all, broken: [] };
}

export function processOf(agent: number): number {
  return Math.max(0, agent - 1);
}
