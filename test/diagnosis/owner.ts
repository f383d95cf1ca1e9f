import type { OwnerFinding, OwnerProbe } from '../../packages/core/src/diagnosis/probe.ts';
import { ownerIdentity, type OwnerIdentity } from '../../packages/core/src/owner.ts';

/** Somebody that all tools can be asked for. */
export const owner: OwnerIdentity = {
  ...ownerIdentity('web-7f9c'),
  pid: 1,
  startedAt: '2026-01-15T02:41:07.123Z',
  bootId: '11111111-2222-4333-8444-555555555555',
  container: undefined,
  pod: 'web-7f9c',
  podNamespace: 'prod',
  node: 'node-3',
  unit: 'reports.service',
  invocation: '0123456789abcdef0123456789abcdef',
};

export async function asked(probe: OwnerProbe, as: OwnerIdentity = owner): Promise<OwnerFinding> {
  const finding = await probe.probe(as, { signal: AbortSignal.timeout(10_000) });
  if (finding === undefined) throw new Error('it says nothing');
  return finding;
}
