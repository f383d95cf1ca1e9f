export type { ByHand } from './by-hand.ts';
export { diagnose, type DiagnoseOptions, type Diagnosis } from './diagnose.ts';
export type { EvidenceItem } from './evidence.ts';
export {
  forceRelease,
  type ForceReleaseOptions,
  type ForceReleaseResult,
  type ReleasePlan,
  type ReleaseStep,
} from './force-release.ts';
export type { OwnerFinding, OwnerProbe, OwnerState } from './probe.ts';
export { customCommand, docker, kubernetes, probeOwner, sameHost, systemd } from './probes/index.ts';
export type { FenceFact, Observation, Permission, Severity, Verdict, VerdictCode } from './verdict.ts';
