import type { Peer } from '../adapters/peer.ts';
import type { Finding } from '../judge.ts';
import type { Stage } from '../stage.ts';

/** One failure, the same for every library. */
export interface Proof {
  readonly name: string;
  /** The head of its column. */
  readonly title: string;
  /** What is done, and what must be seen. */
  readonly rule: string;
  /** For the client of the locks, if that is what this proof is about. */
  commandTimeoutMs?(leaseMs: number): number;
  /** Why it says nothing about this library, if it does not. */
  notFor?(peer: Peer): string | null;
  play(stage: Stage): Promise<Finding>;
}
