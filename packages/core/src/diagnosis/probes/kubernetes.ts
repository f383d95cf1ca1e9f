import type { OwnerProbe } from '../probe.ts';
import { podByHand } from './by-hand.ts';
import { factsOf, type OwnerFacts } from './facts.ts';
import { FORCED, judgePod, readPod } from './pod.ts';
import { ask, found, fromJson, isAnswer, refused, type ToolOptions } from './tool.ts';
import { answer, gone, plain, type Answer } from './words.ts';

export interface KubernetesOptions extends ToolOptions {
  /**
   * The context of kubectl's configuration in which all owners run. Naming one says that it is theirs. Without it kubectl
   * asks in its current context, and `gone` is said only where the boot id of a node, or the id of a container, shows that
   * this is the owner's cluster.
   */
  readonly context?: string;
}

/**
 * Asks `kubectl get pod` for the pod that the owner ran in. Undefined for owners whose POD_NAME and POD_NAMESPACE were not
 * set. Needs `get` on pods; with `list` on nodes it also sees which cluster this is, and nodes that do not report.
 *
 * Tested with answers in the form that Kubernetes documents, not against a cluster.
 */
export function kubernetes(options: KubernetesOptions = {}): OwnerProbe {
  const command = options.command ?? 'kubectl';
  const common = options.context === undefined ? [] : [`--context=${options.context}`];
  return {
    name: 'kubernetes',
    async probe(owner, { signal }) {
      const facts = factsOf(owner);
      const { pod, podNamespace } = facts;
      if (pod === undefined || podNamespace === undefined) return undefined;
      const kubectl: Kubectl = {
        command,
        get: (...args) => ask(command, ['get', ...common, ...args], signal),
        isNamed: options.context !== undefined,
      };
      return found('kubernetes', await lookFor(kubectl, pod, podNamespace, facts), podByHand(facts));
    },
  };
}

interface Kubectl {
  readonly command: string;
  readonly get: (...args: readonly string[]) => ReturnType<typeof ask>;
  /** The caller has named the cluster. */
  readonly isNamed: boolean;
}

async function lookFor(kubectl: Kubectl, name: string, namespace: string, owner: OwnerFacts): Promise<Answer> {
  const reply = await kubectl.get('pod', `--namespace=${namespace}`, '--output=json', '--', name);
  if (isAnswer(reply)) return reply;
  if (reply.exitCode !== 0) {
    // In the words of the API server; what kubectl says for itself ("context not found") does not begin so.
    if (!reply.stderr.includes(`Error from server (NotFound): pods "${name}" not found`))
      return refused(kubectl.command, reply);
    return noPod(name, namespace, owner, kubectl.isNamed, await nodesOf(kubectl));
  }
  const pod = readPod(fromJson(reply.stdout));
  if (pod === undefined) return answer('unverifiable', 'kubectl described the pod in a form that is not known');
  const { said, isCertain } = judgePod(pod, owner);
  if (said.state === 'unverifiable' || (said.state === 'gone' && isCertain)) return said;
  const nodes = await nodesOf(kubectl);
  if (said.state === 'gone') {
    const isHere = kubectl.isNamed || isOf(owner, nodeOf(owner, nodes));
    return isHere ? said : answer('unverifiable', `${said.detail}; ${WHICH}`);
  }
  const node = nodes?.find(({ name }) => name === pod.nodeName);
  if (node === undefined || node.isReady) return said;
  return answer('unverifiable', `${said.detail}, but its node ${plain(node.name)} has stopped reporting`);
}

const WHICH = 'but nothing shows that this is the cluster of the owner; name its context to say so';

function noPod(
  name: string,
  namespace: string,
  owner: OwnerFacts,
  isNamed: boolean,
  nodes: readonly Node[] | undefined,
): Answer {
  const node = nodeOf(owner, nodes);
  const isSameBoot = isOf(owner, node);
  const what = `there is no pod ${name} in ${namespace}`;
  if (node !== undefined && !node.isReady && (isSameBoot || isNamed)) {
    return answer(
      'unverifiable',
      `${what}, but its node ${plain(node.name)} does not report: the pod may still run there`,
    );
  }
  if (isSameBoot) return gone(`${what}, and its node ${plain(node.name)} is up and reports`, FORCED);
  return isNamed ? gone(`${what} (any more)`, FORCED) : answer('unverifiable', `${what}, ${WHICH}`);
}

interface Node {
  readonly name: string;
  readonly bootId: string;
  readonly isReady: boolean;
}

/** The node is up since before the owner started, and so the cluster the owner's. */
function isOf(owner: OwnerFacts, node: Node | undefined): node is Node {
  return node !== undefined && node.bootId === owner.bootId;
}

/** The owner's: by its boot id, which is random and the same in all containers of a node, or else by name. */
function nodeOf(owner: OwnerFacts, nodes: readonly Node[] | undefined): Node | undefined {
  if (owner.bootId === undefined) return undefined;
  return nodes?.find(({ bootId }) => bootId === owner.bootId) ?? nodes?.find(({ name }) => name === owner.node);
}

const COLUMNS =
  '{range .items[*]}{.metadata.name}{"\\t"}{.status.nodeInfo.bootID}{"\\t"}{.status.conditions[?(@.type=="Ready")].status}{"\\n"}{end}';

/** Undefined where they may not be listed. */
async function nodesOf({ get }: Kubectl): Promise<readonly Node[] | undefined> {
  const reply = await get('nodes', `--output=jsonpath=${COLUMNS}`);
  if (isAnswer(reply) || reply.exitCode !== 0) return undefined;
  return reply.stdout.split('\n').flatMap((line) => {
    const [name = '', bootId = '', ready] = line.split('\t');
    return name === '' ? [] : [{ name, bootId, isReady: ready === 'True' }];
  });
}
