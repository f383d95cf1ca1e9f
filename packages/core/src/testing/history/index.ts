export { oneAdopter } from './adoption.ts';
export { releaseWaitsForBody } from './body.ts';
export { bookAgrees } from './book.ts';
export { diagnosisIsReadOnly, forceSealsFirst } from './break-glass.ts';
export { checkHistory, invariants, type HistoryVerdict } from './check.ts';
export { addCounts, noCounts, type Counts } from './counts.ts';
export { lossIsHeardInTime } from './deadline.ts';
export {
  describeHappening,
  type Breach,
  type Finding,
  type Happening,
  type Invariant,
  type InvariantId,
} from './finding.ts';
export { actsByItsGrant } from './grant.ts';
export type { Act, FenceRow, GrantRow, History, HistoryLine, KnownNemesis, Phase } from './history.ts';
export { grantIsContiguous, fenceNeverGoesDown, oneLeaseIdPerToken, noFalseFence, noLostUpdate } from './guard.ts';
export { heldNoLonger } from './hold.ts';
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
export { quarantineIsKept } from './quarantine.ts';
export { revokedIsOver } from './revocation.ts';
export { oneTrustingOwner, lossIsFinal, writeIsGated } from './owner.ts';
export { ghostIsContained, lostIsNotExtended, leaseIdIsGrantedOnce, releaseIsOwn, tokensGrow } from './store.ts';
export { tickRunsOnce } from './tick.ts';
export { turnsAreKept } from './turn.ts';
export { checkCounts, runsWereExercised, faultsHadEffect } from './validity.ts';
export { View } from './view.ts';
export { unansweredIsTakenBack } from './withdrawal.ts';
export { Recorder, type About, type Recording, type RecorderOptions } from './recorder.ts';
export { RecordingFence, type WriteTag } from './recording-fence.ts';
export { recordStore } from './recording-store.ts';
