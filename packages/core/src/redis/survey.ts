/** What Redis can say of itself for who asks whether it is fit to keep leases. */

import type { ServerEvidence } from '../store/evidence.ts';
import { known, type Reading } from '../store/reading.ts';
import type { StoreCall } from '../store/store.ts';
import type { StoreRights, StoreSurvey } from '../store/survey.ts';
import { Budget, failed } from './ask.ts';
import type { RedisConnection } from './connection.ts';
import { askAfresh, askSentinels, Others, OWN_PART, withoutDoubles, type Inquiry } from './evidence.ts';
import { sentinelsOf } from './ioredis-visit.ts';
import { isIoredis } from './ioredis.ts';
import { isNodeRedis } from './node-redis.ts';
import { judgeRights, questionsOf } from './rights.ts';
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
  const rights = client.known ? askRights(connection, prefix, budget) : client;
  let own: readonly ServerEvidence[];
  if (client.known) {
    own = await Promise.all(
      client.value.everyServing().map(async ({ address, send, others: replicas }) => {
        for (const each of replicas) others.start(each);
        const { evidence, neighbours } = await askServer(address, budget.asking(send), clock);
        for (const each of neighbours) others.start(each);
        return evidence;
      }),
    );
  } else own = (await askAfresh(inquiry, budget, others, client)).servers;
  await given;
  await others.done();
  return {
    usable: client.known ? known(true) : whyNot(client, own[0]),
    isCluster: isIoredis(source) && source.isCluster === true,
    sentinels: isNodeRedis(source) ? null : (sentinelsOf(source)?.endpoints.length ?? null),
    servers: withoutDoubles([...own, ...others.found()]),
    rights: await rights,
  };
}

/** A fresh connection says why it fails; that of the store tries again for as long as it is asked to. */
function whyNot(reason: Extract<Reading<never>, { known: false }>, server: ServerEvidence | undefined): Reading<never> {
  return reason.why === 'unreachable' && server?.version.known === false ? server.version : reason;
}

async function askRights(connection: RedisConnection, prefix: string, budget: Budget): Promise<Reading<StoreRights>> {
  const questions = questionsOf(prefix);
  try {
    const call = { timeoutMs: budget.leftMs };
    const may = await connection.run(rightsScript, rightsArgs(questions), call, rightsReply, questions.length);
    return known(judgeRights(prefix, may));
  } catch (error) {
    return failed(error);
  }
}
