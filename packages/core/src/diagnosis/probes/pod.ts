/** What Kubernetes' description of a pod says of a process that ran in it. */

import { z } from 'zod';

import type { OwnerFacts } from './facts.ts';
import { ofMainProcess } from './tool.ts';
import { answer, gone, plain, second, type Answer } from './words.ts';

/** The parts that are looked at. Times in ms since 1970. */
export interface Pod {
  readonly createdAt: number;
  readonly nodeName: string | undefined;
  readonly phase: string;
  readonly containers: readonly Container[];
}

interface Container {
  readonly name: string;
  /** `containerd://6f3a…` */
  readonly containerID?: string | undefined;
  readonly restartCount: number;
  readonly state?: ContainerState | undefined;
  /** How the one before it ended. */
  readonly lastState?: ContainerState | undefined;
}

interface ContainerState {
  readonly running?: { readonly startedAt: number } | undefined;
  readonly waiting?: object | undefined;
  readonly terminated?:
    | { readonly containerID?: string | undefined; readonly exitCode: number; readonly reason?: string | undefined }
    | undefined;
}

const time = z.iso.datetime({ offset: true }).transform((text) => Date.parse(text));
const state = z.object({
  running: z.object({ startedAt: time }).optional(),
  waiting: z.object({}).optional(),
  terminated: z
    .object({ containerID: z.string().optional(), exitCode: z.number(), reason: z.string().optional() })
    .optional(),
});
const containers = z
  .array(
    z.object({
      name: z.string(),
      containerID: z.string().optional(),
      restartCount: z.number(),
      state: state.optional(),
      lastState: state.optional(),
    }),
  )
  .optional();
const schema = z.object({
  metadata: z.object({ creationTimestamp: time }),
  spec: z.object({ nodeName: z.string().optional() }),
  status: z.object({
    phase: z.string().optional(),
    containerStatuses: containers,
    initContainerStatuses: containers,
    ephemeralContainerStatuses: containers,
  }),
});

/** Of `kubectl get pod --output=json`; undefined if it is no pod. */
export function readPod(json: unknown): Pod | undefined {
  const { success, data } = schema.safeParse(json);
  if (!success) return undefined;
  const { containerStatuses = [], initContainerStatuses = [], ephemeralContainerStatuses = [], phase } = data.status;
  return {
    createdAt: data.metadata.creationTimestamp,
    nodeName: data.spec.nodeName,
    phase: phase ?? 'in no phase',
    containers: [...containerStatuses, ...initContainerStatuses, ...ephemeralContainerStatuses],
  };
}

/**
 * The answer, and whether the pod has been shown to be the owner's by the random id of a container: pods of one name exist
 * in several clusters.
 */
export interface PodAnswer {
  readonly said: Answer;
  readonly isCertain: boolean;
}

export function judgePod(pod: Pod, owner: OwnerFacts): PodAnswer {
  const { containers } = pod;
  const own = containers.find((container) => isOwn(container.containerID, owner));
  if (own !== undefined) return { said: current(own, owner), isCertain: true };
  const last = containers.find(({ lastState }) => isOwn(lastState?.terminated?.containerID, owner));
  if (last !== undefined) return { said: restarted(last), isCertain: true };
  return { said: byTimes(pod, owner), isCertain: false };
}

function isOwn(containerId: string | undefined, { container }: OwnerFacts): boolean {
  return container !== undefined && containerId?.split('://').at(-1)?.startsWith(container) === true;
}

/** The kubelet lost sight of the container (ContainerStatusUnknown) and says 137, which it has not seen. */
function hasEnded(state: Container['state']): boolean {
  return state?.terminated !== undefined && state.terminated.reason !== 'ContainerStatusUnknown';
}

function restarted({ name, restartCount }: Container): Answer {
  return gone(`container ${plain(name)} has ended and been started again since (restart ${restartCount})`);
}

function current(container: Container, owner: OwnerFacts): Answer {
  const { name, state } = container;
  if (hasEnded(state)) {
    return gone(
      `container ${plain(name)} has ended (${plain(state?.terminated?.reason ?? '')}, exit code ${state?.terminated?.exitCode})`,
    );
  }
  if (state?.running !== undefined) return running(container, state.running.startedAt, owner);
  return answer('unverifiable', `container ${plain(name)} is not reported as running, nor as ended`);
}

function running({ name }: Container, startedAt: number, owner: OwnerFacts): Answer {
  return ofMainProcess(
    owner.pid,
    answer('alive', `container ${plain(name)} runs since ${second(startedAt)}`, 'as its node has reported last'),
  );
}

/** Without the id of the owner's container: whatever it was, has each one ended since? */
function byTimes({ containers, createdAt, phase }: Pod, owner: OwnerFacts): Answer {
  if (owner.startedAt === undefined) return answer('unverifiable', 'the record does not say when its owner started');
  // A process starts after its pod was created; the one time is by the clock of the node, the other by that of the cluster.
  if (createdAt > owner.startedAt + CLOCKS_MS) {
    return gone(
      `the pod of that name was created at ${second(createdAt)}, after its owner started: the owner's has been deleted`,
      FORCED,
    );
  }
  if (createdAt > owner.startedAt)
    return answer('unverifiable', 'whether the pod or the owner was first is a matter of clocks');
  // A pod may be marked as failed because its node is lost; only what its containers say was seen.
  const left = containers.filter((container) => mayBeOwners(container, owner));
  if (containers.length === 0) return answer('unverifiable', `the pod is ${plain(phase)} and reports no container`);
  if (left.length === 0) {
    return gone(`every container of the pod has ended since ${second(owner.startedAt)} (${plain(phase)})`);
  }
  const [only] = left;
  const startedAt = only?.state?.running?.startedAt;
  if (left.length === 1 && only !== undefined && startedAt !== undefined) return running(only, startedAt, owner);
  return answer(
    'unverifiable',
    `the owner may have run in ${left.map(({ name }) => plain(name)).join(' or ')}, of which some run`,
  );
}

/** Did not end since the owner started, as far as is known. */
function mayBeOwners({ state, restartCount, lastState }: Container, owner: OwnerFacts): boolean {
  if (hasEnded(state)) return false;
  // Both times are by the clock of one node; the restart shows that it was not that clock alone that moved.
  const startedAt = state?.running?.startedAt;
  if (startedAt !== undefined && owner.startedAt !== undefined) {
    return !(restartCount > 0 && startedAt > owner.startedAt + STEP_MS);
  }
  // Waiting, as in CrashLoopBackOff: the one before has ended, and this one has not begun.
  return !(state?.waiting !== undefined && restartCount > 0 && hasEnded(lastState));
}

/** So far the clocks of a cluster and its nodes may be apart. */
const CLOCKS_MS = 60_000;
/** So far a correction of the clock between the start of a container and its process may lead astray. */
const STEP_MS = 2000;

/** Of a pod that is no more. */
export const FORCED =
  'a pod that was deleted by force can go on running on a node out of reach; what it had sent may still arrive';
