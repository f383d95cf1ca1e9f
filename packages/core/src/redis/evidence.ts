/** What Redis can say for diagnosis, beyond the record: of the key, of the owner's connections and of all servers in reach. */

import type { Clock } from '../clock.ts';
import type { OwnerIdentity } from '../owner.ts';
import type { ServerEvidence, StoreEvidence } from '../store/evidence.ts';
import { unknown, valueOf, type Reading } from '../store/reading.ts';
import type { StoreCall } from '../store/store.ts';
import { Budget, type Ask } from './ask.ts';
import { visitOf, type RedisSource, type Visit } from './client.ts';
import type { RedisConnection } from './connection.ts';
import { endpointText, type Endpoint } from './endpoint.ts';
import { sentinelVisit, sentinelsOf, startupEndpoints } from './ioredis-visit.ts';
import { isNodeRedis } from './node-redis.ts';
import { masterAndReplicas } from './sentinel.ts';
import { askServer, unreadable } from './server-evidence.ts';
import { shapeOf } from './shape.ts';
import { ownerConnections } from './owner-connections.ts';

/** So many servers are asked beside the store's own: replicas of replicas may be without end. */
const MAX_OTHERS = 32;

/** So much of the time waits for the store's own connection, so that there is some left for a fresh one. */
export const OWN_PART = 0.5;

export interface Inquiry {
  readonly connection: RedisConnection;
  readonly source: RedisSource;
  /** What to call the store's server as long as it has told nothing. */
  readonly address: string;
  /** Further servers that the user knows of. */
  readonly endpoints: readonly Endpoint[];
  readonly clock: Clock;
}

export async function gatherEvidence(
  inquiry: Inquiry,
  key: string,
  owner: OwnerIdentity | null,
  call: StoreCall,
): Promise<StoreEvidence> {
  const budget = new Budget(inquiry.clock, call.timeoutMs);
  const others = new Others(inquiry, budget);
  call.sent?.();
  const given = Promise.all([
    ...inquiry.endpoints.map((each) => others.add(each)),
    askSentinels(inquiry, budget, others),
  ]);
  const [own] = await Promise.all([askOwn(inquiry, budget, others, key, owner), given]);
  // All of them may have named further ones.
  await others.done();
  return { ...own.about, key, servers: withoutDoubles([...own.servers, ...others.found()]) };
}

interface Own {
  readonly about: Pick<StoreEvidence, 'shape' | 'connections'>;
  /** The store's own first. */
  readonly servers: readonly ServerEvidence[];
}

async function askOwn(
  inquiry: Inquiry,
  budget: Budget,
  others: Others,
  key: string,
  owner: OwnerIdentity | null,
): Promise<Own> {
  const client = await budget.reading(inquiry.connection.client(), OWN_PART);
  const serving = valueOf(client)?.serving(key);
  if (serving === undefined) {
    const reason = client.known ? unknown('not-known', 'no node of the Cluster is known to serve the key') : client;
    return askAfresh(inquiry, budget, others, reason);
  }
  for (const each of serving.others) others.start(each);
  const moved = askMoved(inquiry, budget).catch(() => []);
  const ask = budget.asking(serving.send);
  const { evidence, neighbours } = await askServer(serving.address, ask, inquiry.clock);
  // The owner's address is told by both, the way there and the server's own name: asked twice, it is dropped below.
  for (const each of neighbours) others.start(each);
  const [shape, connections] = await Promise.all([shapeOf(ask, key), ownerConnections(ask, owner)]);
  return { about: { shape, connections }, servers: [evidence, ...(await moved)] };
}

/**
 * Who answers now where the store's connection once led. A name or a virtual address goes to another server after a
 * failover, and a connection that is open stays with the one before. Counts only with a run id, by which it is known for
 * another one.
 */
async function askMoved({ source, address, clock }: Inquiry, budget: Budget): Promise<readonly ServerEvidence[]> {
  const visit = await visitOf(source, undefined, budget.leftMs).catch(() => undefined);
  if (visit === undefined) return [];
  return visited(
    visit,
    budget,
    async (ask) => [(await askServer(address, ask, clock)).evidence].filter(({ runId }) => runId.known),
    () => [],
  );
}

/** The store's own connection is of no use: does the server say more to somebody new? No keys are read this way. */
export async function askAfresh(
  inquiry: Inquiry,
  budget: Budget,
  others: Others,
  reason: Reading<never>,
): Promise<Own> {
  const { source, address, clock } = inquiry;
  const about = { shape: reason, connections: reason };
  if (!isNodeRedis(source)) for (const each of startupEndpoints(source)) others.start(each);
  const visit = await visitOf(source, undefined, budget.leftMs).catch(() => undefined);
  if (visit === undefined) return { about, servers: [unreadable(address, reason)] };
  const { evidence, neighbours } = await visited(
    visit,
    budget,
    (ask) => askServer(address, ask, clock),
    (why) => ({
      evidence: unreadable(address, why),
      neighbours: [],
    }),
  );
  for (const each of neighbours) others.start(each);
  return { about, servers: [evidence] };
}

/** Connects, asks and goes, whatever comes of it. */
async function visited<T>(
  visit: Visit,
  budget: Budget,
  ask: (ask: Ask) => Promise<T>,
  otherwise: (why: Reading<never>) => T,
): Promise<T> {
  try {
    const connected = await budget.reading(visit.connect());
    return connected.known ? await ask(budget.asking(visit.send)) : otherwise(connected);
  } finally {
    visit.disconnect();
  }
}

export async function askSentinels({ source }: Inquiry, budget: Budget, others: Others): Promise<void> {
  if (isNodeRedis(source)) return;
  const sentinels = sentinelsOf(source);
  if (sentinels === undefined) return;
  await Promise.all(
    sentinels.endpoints.map(async (endpoint) => {
      const visit = await sentinelVisit(source, endpoint, budget.leftMs).catch(() => undefined);
      if (visit === undefined) return;
      const found = await visited(
        visit,
        budget,
        (ask) => masterAndReplicas(ask, sentinels.group),
        () => [],
      );
      for (const each of found) others.start(sentinels.translate(each));
    }),
  );
}

/** The servers beside the store's own, each asked once by a connection of its own, and those that they name in turn. */
export class Others {
  readonly #inquiry: Inquiry;
  readonly #budget: Budget;
  readonly #asked = new Map<string, ServerEvidence | undefined>();
  readonly #running = new Set<Promise<void>>();

  constructor(inquiry: Inquiry, budget: Budget) {
    this.#inquiry = inquiry;
    this.#budget = budget;
  }

  start(endpoint: Endpoint): void {
    const running = this.add(endpoint).finally(() => this.#running.delete(running));
    this.#running.add(running);
  }

  /** Resolves when this one has been asked. */
  async add(endpoint: Endpoint): Promise<void> {
    const name = endpointText(endpoint);
    if (this.#asked.has(name) || this.#asked.size >= MAX_OTHERS) return;
    this.#asked.set(name, undefined);
    const { source, clock } = this.#inquiry;
    const visit = await visitOf(source, endpoint, this.#budget.leftMs).catch(() => undefined);
    const otherwise = (why: Reading<never>) => ({ evidence: unreadable(name, why), neighbours: [] });
    const { evidence, neighbours } =
      visit === undefined
        ? otherwise(unknown('unreachable', 'no connection could be made'))
        : await visited(visit, this.#budget, (ask) => askServer(name, ask, clock), otherwise);
    this.#asked.set(name, evidence);
    for (const each of neighbours) this.start(each);
  }

  async done(): Promise<void> {
    while (this.#running.size > 0) await Promise.all(this.#running);
  }

  /** In the order in which they were heard of. */
  found(): readonly ServerEvidence[] {
    return [...this.#asked.values()].filter((each) => each !== undefined);
  }
}

/**
 * One server has many addresses, but one run id at a time; and behind one address there may be two servers, one after the
 * other. So the address counts only where the run id is not known. The first is kept.
 */
export function withoutDoubles(servers: readonly ServerEvidence[]): readonly ServerEvidence[] {
  const seen = new Set<string>();
  return servers.filter(({ endpoint, runId }) => {
    const isDouble = seen.has(runId.known ? runId.value : endpoint);
    seen.add(endpoint);
    if (runId.known) seen.add(runId.value);
    return !isDouble;
  });
}
