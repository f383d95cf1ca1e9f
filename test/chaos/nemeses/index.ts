import type { Nemesis } from '../nemesis.ts';
import { block } from './block.ts';
import { cable } from './cable.ts';
import { close } from './close.ts';
import { delay, fenceRefused, refused, reset } from './connection.ts';
import { diagnose } from './diagnose.ts';
import { duplicate } from './duplicate.ts';
import { forceReleaseStale, forceUnsealed, unsafeForce } from './force.ts';
import { freeze } from './freeze.ts';
import { kill, killAll, killInSection } from './kill.ts';
import { fenceLatePacket, latePacket } from './late-packet.ts';
import { acquireReplyLost, commitReplyLost } from './lost-reply.ts';
import {
  fencePartition,
  fencePartitionHeld,
  fenceRepliesLost,
  partition,
  partitionHeld,
  repliesHeld,
  repliesLost,
  requestsLost,
} from './partition.ts';
import { pause, pauseInSection, shortPause } from './pause.ts';
import { postgresKill, postgresPause, resetInTransaction, rowsHeld, sessionsTerminated } from './postgres.ts';
import { promotion } from './promotion.ts';
import { revoke } from './revoke.ts';
import { storeClockAhead, storeClockAheadABit, storeClockBack, storeClockBackABit } from './store-clock.ts';
import { storeBusy, storeClientKill, storeClientPause, storeScriptFlush, storeSleep } from './store-commands.ts';
import { storeDelete, storeEvict, storeFlush } from './store-loss.ts';
import { storePause, storeRestartAof, storeRestartEmpty } from './store-process.ts';
import { storeFull, storeMisconf, storeNoReplicas, storeReadonly } from './store-refusals.ts';
import { smallWallClock, wallClock } from './wall-clock.ts';

/** All that can go wrong. */
export const nemeses: readonly Nemesis[] = [
  ...[kill, killInSection, killAll, close, pause, shortPause, pauseInSection, freeze, block, wallClock, smallWallClock],
  ...[partition, partitionHeld, requestsLost, repliesLost, repliesHeld, reset, refused, delay, duplicate, latePacket],
  ...[acquireReplyLost, commitReplyLost, fencePartition, fencePartitionHeld, fenceRepliesLost, fenceRefused],
  ...[fenceLatePacket, resetInTransaction, cable],
  ...[storePause, storeRestartEmpty, storeRestartAof, storeFlush, storeDelete, storeEvict, storeFull, storeReadonly],
  ...[storeMisconf, storeNoReplicas, storeScriptFlush, storeClientKill, storeClientPause, storeSleep, storeBusy],
  ...[storeClockAhead, storeClockAheadABit, storeClockBack, storeClockBackABit, promotion],
  ...[postgresPause, postgresKill, sessionsTerminated, rowsHeld],
  ...[revoke, diagnose, forceReleaseStale, forceUnsealed, unsafeForce],
];
