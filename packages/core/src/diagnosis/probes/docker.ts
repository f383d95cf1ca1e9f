import { z } from 'zod';

import type { OwnerProbe } from '../probe.ts';
import { containerByHand } from './by-hand.ts';
import { factsOf, type OwnerFacts } from './facts.ts';
import { ask, found, fromJson, isAnswer, ofMainProcess, refused, type ToolOptions } from './tool.ts';
import { answer, gone, plain, second, type Answer } from './words.ts';

const stateSchema = z.object({
  Status: z.string(),
  StartedAt: z.iso.datetime({ offset: true }),
  FinishedAt: z.string(),
});

/**
 * Asks `docker container inspect` for the container that the owner ran in. Undefined for owners without one. That a daemon
 * does not know a container is never `gone`: the container may be another daemon's, on this machine, too (containerd under
 * Kubernetes, Podman, a second dockerd).
 *
 * Tested with answers in the form that Docker documents, not against a daemon.
 */
export function docker(options: ToolOptions = {}): OwnerProbe {
  const command = options.command ?? 'docker';
  return {
    name: 'docker',
    async probe(owner, { signal }) {
      const facts = factsOf(owner);
      if (facts.container === undefined) return undefined;
      return found('docker', await inspect(command, facts.container, facts, signal), containerByHand(facts));
    },
  };
}

async function inspect(command: string, container: string, owner: OwnerFacts, signal: AbortSignal): Promise<Answer> {
  const args = ['container', 'inspect', '--format', '{{json .State}}', '--', container];
  const reply = await ask(command, args, signal);
  if (isAnswer(reply)) return reply;
  if (reply.exitCode !== 0) {
    if (!/no such container/i.test(reply.stderr)) return refused(command, reply);
    return answer(
      'unverifiable',
      `docker here knows no container ${container}; it may be another daemon's, or removed`,
    );
  }
  const state = stateSchema.safeParse(fromJson(reply.stdout));
  if (!state.success) return answer('unverifiable', 'docker described the container in a form that is not known');
  return judge(container, owner, state.data);
}

function judge(container: string, owner: OwnerFacts, state: z.infer<typeof stateSchema>): Answer {
  const startedAt = Date.parse(state.StartedAt);
  switch (state.Status) {
    case 'exited':
    case 'dead':
      return gone(`container ${container} has ended (${state.Status}, ${plain(state.FinishedAt)})`);
    case 'restarting':
      return gone(`container ${container} has ended and is about to be started again`);
    case 'running':
    case 'paused':
      // A container keeps its id when it is started again. Both times are by the clock of one machine.
      if (owner.startedAt !== undefined && startedAt > owner.startedAt + STEP_MS) {
        return gone(`container ${container} has been started again since, at ${second(startedAt)}`);
      }
      return ofMainProcess(
        owner.pid,
        state.Status === 'paused'
          ? answer('stopped', `container ${container} is paused`, 'it goes on where it stood on docker unpause')
          : answer('alive', `container ${container} runs since ${second(startedAt)}`),
      );
    default:
      return answer('unverifiable', `container ${container} is ${plain(state.Status)}`);
  }
}

/** A process starts after its container; so far a correction of the clock between the two may lead astray. */
const STEP_MS = 2000;
