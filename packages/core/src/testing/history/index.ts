export { diagnosisIsReadOnly, forceSealsFirst } from './break-glass.ts';
export { checkHistory, invariants, type HistoryVerdict } from './check.ts';
export { addCounts, noCounts, type Counts } from './counts.ts';
export {
  describeHappening,
  type Breach,
  type Finding,
  type Happening,
  type Invariant,
  type InvariantId,
} from './finding.ts';
export type { Act, FenceRow, GrantRow, History, HistoryLine, KnownNemesis, Phase } from './history.ts';
export { grantIsContiguous, fenceNeverGoesDown, oneLeaseIdPerToken, noFalseFence, noLostUpdate } from './guard.ts';
export {
  callsSettle,
  fenceSettles,
  floorIsLearned,
  noNeedlessLoss,
  workGoesOn,
  takeoverInTime,
  sleeperHearsOfLoss,
} from './liveness.ts';
export { lingeringEnds } from './lingering.ts';
export type { CheckOptions } from './options.ts';
export { oneTrustingOwner, lossIsFinal, writeIsGated } from './owner.ts';
export {
  ghostIsContained,
  lostIsNotExtended,
  leaseIdIsGrantedOnce,
  releaseIsOwn,
  tickRunsOnce,
  tokensGrow,
} from './store.ts';
export { checkCounts, runsWereExercised, faultsHadEffect } from './validity.ts';
export { View } from './view.ts';
export { Recorder, type About, type Recording, type RecorderOptions } from './recorder.ts';
export { RecordingFence, type WriteTag } from './recording-fence.ts';
export { recordStore } from './recording-store.ts';
