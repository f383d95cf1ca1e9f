/** What Redis can say of itself for who asks whether it is fit to keep leases. */

import type { ServerEvidence } from '../store/evidence.ts';
import { known, unknown, type Reading } from '../store/reading.ts';
import type { StoreCall } from '../store/store.ts';
import type { StoreRights, StoreSurvey } from '../store/survey.ts';
import type { RedisAclOptions } from './acl.ts';
import { Budget, type Ask } from './ask.ts';
import { askAfresh, askSentinels, Others, OWN_PART, withoutDoubles, type Inquiry } from './evidence.ts';
import { sentinelsOf } from './ioredis-visit.ts';
import { isIoredis } from './ioredis.ts';
import { isNodeRedis } from './node-redis.ts';
import { judgeRights, questionsOf } from './rights.ts';
import { withText } from './script.ts';
import { rightsArgs, rightsReply, rightsScript } from './scripts/rights.ts';
import { askServer } from './server-evidence.ts';

export async function surveyStore(inquiry: Inquiry, prefix: string, call: StoreCall): Promise<StoreSurvey> {
  const { connection, source, clock } = inquiry;
  const budget = new Budget(clock, call.timeoutMs);
  const others = new Others(inquiry, budget);
  call.sent?.();
  const given = Promise.all([
    ...inquiry.endpoints.map((each) => others.add(each)),
    askSentinels(inquiry, budget, others),
  ]);
  const client = await budget.reading(connection.client(), OWN_PART);
  const usable = client.known && client.value.everyServing().length === 0 ? NO_NODE : client;
  const isCluster = isIoredis(source) && source.isCluster === true;
  const options = { cluster: isCluster, database: OTHER_DATABASE.test(inquiry.address) };
  let own: readonly ServerEvidence[];
  let rights: Reading<StoreRights> = usable.known ? NO_NODE : usable;
  if (usable.known) {
    const serving = usable.value.everyServing();
    // A user is the same on every node.
    const asked = serving.slice(0, 1).map(({ send }) => askRights(budget.asking(send), prefix, options));
    own = await Promise.all(
      serving.map(async ({ address, send, others: replicas }) => {
        for (const each of replicas) others.start(each);
        const { evidence, neighbours } = await askServer(address, budget.asking(send), clock);
        for (const each of neighbours) others.start(each);
        return evidence;
      }),
    );
    rights = (await asked[0]) ?? rights;
  } else own = (await askAfresh(inquiry, budget, others, usable)).servers;
  await given;
  await others.done();
  return {
    usable: usable.known ? known(true) : whyNot(usable, own[0]),
    isCluster,
    sentinels: isNodeRedis(source) ? null : (sentinelsOf(source)?.endpoints.length ?? null),
    servers: withoutDoubles([...own, ...others.found()]),
    rights,
  };
}

const NO_NODE = unknown('not-known', 'no node of the Cluster is known to serve anything');
/** Of an address that ends with one: it takes a right more. */
const OTHER_DATABASE = /\/0*[1-9]\d*$/;

/** A fresh connection says why it fails; that of the store tries again for as long as it is asked to. */
function whyNot(reason: Extract<Reading<never>, { known: false }>, server: ServerEvidence | undefined): Reading<never> {
  return reason.why === 'unreachable' && server?.version.known === false ? server.version : reason;
}

/** With its text: it is asked once, and a user without EVALSHA is to be told so. */
async function askRights(ask: Ask, prefix: string, options: RedisAclOptions): Promise<Reading<StoreRights>> {
  const questions = questionsOf(prefix);
  const args = withText(rightsScript, rightsArgs(questions));
  const reply = await ask('eval', ...args);
  if (!reply.known) return reply;
  try {
    return known(judgeRights(prefix, rightsReply(reply.value, args, questions.length), options));
  } catch {
    return unknown('not-known', 'the server gave no usable answer');
  }
}
