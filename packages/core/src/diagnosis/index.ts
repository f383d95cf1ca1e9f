export type { ByHand } from './by-hand.ts';
export { diagnose, type DiagnoseOptions, type Diagnosis } from './diagnose.ts';
export { doctor, type Checkup, type DoctorOptions } from './doctor.ts';
export type { FenceCheck, FenceStatus } from './checks/fences.ts';
export type { CheckId, Finding, FindingSeverity } from './checks/finding.ts';
export type { CheckedLease } from './checks/timing.ts';
export type { EvidenceItem } from './evidence.ts';
export { forceRelease, type ForceReleaseOptions, type ForceReleaseResult, type ReleaseStep } from './force-release.ts';
export type { SealOptions } from './options.ts';
export type { MasterFact } from './masters.ts';
export { readNtp, type NtpOptions, type NtpState } from './ntp.ts';
export type { ReleasePlan } from './plan.ts';
export type { OwnerFinding, OwnerProbe, OwnerState } from './probe.ts';
export {
  customCommand,
  docker,
  kubernetes,
  probeOwner,
  sameHost,
  systemd,
  type KubernetesOptions,
  type ToolOptions,
} from './probes/index.ts';
export { adviseTiming, type TimingAdvice, type TimingAdviceRequest } from '../lease/timing-advice.ts';
export { seal, type SealFailure, type SealResult } from './seal.ts';
export type { Aftermath } from './successor.ts';
export type { FenceFact, Observation, Permission, Severity, Verdict, VerdictCode } from './verdict.ts';
