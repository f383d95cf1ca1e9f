import type { Peer } from './adapters/peer.ts';
import type { Finding } from './judge.ts';
import { nodeFor } from './nodes.ts';
import type { Proof } from './proofs/index.ts';
import { Stage } from './stage.ts';

/** One library through one proof, on servers and in processes of its own. */
export async function play(key: string, peer: Peer, proof: Proof, leaseMs: number): Promise<Finding> {
  const node = nodeFor(peer.needsNode);
  const why = proof.notFor?.(peer) ?? (node === null ? `needs Node ${peer.needsNode}, which is not here` : null);
  if (why !== null) return { verdict: 'left out', text: why, measured: {} };
  await using stage = await Stage.open({
    peer: key,
    leaseMs,
    commandTimeoutMs: proof.commandTimeoutMs?.(leaseMs),
    node: node ?? undefined,
  });
  return await proof.play(stage);
}
