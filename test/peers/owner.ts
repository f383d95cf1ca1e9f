// A process that wants the resource once, and acts on it for as long as its library says that it may.
import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';

import { heard, say } from '../support/child-side.ts';
import { peerNamed } from './catalog.ts';
import { attempt, writeCommand } from './ledger.ts';

export interface OwnerSetup {
  readonly peer: string;
  readonly owner: string;
  readonly storeUrl: string;
  /** By which the protected writes go. */
  readonly ledgerUrl: string;
  /** By which the attempts are told. */
  readonly witnessUrl: string;
  readonly resource: string;
  readonly leaseMs: number;
  readonly commandTimeoutMs: number | undefined;
}

const STEP_MS = 25;

const setup = JSON.parse(process.env['PEER_OWNER'] ?? '') as OwnerSetup;
const ledger = new Redis(setup.ledgerUrl);
const witness = new Redis(setup.witnessUrl);
for (const client of [ledger, witness]) client.on('error', () => {});

const peer = await peerNamed(setup.peer);
const contender = await peer.open({ ...setup, ledger, renewMs: peer.renewMs(setup.leaseMs) });

let mustStand = false;
void heard('stand').then(() => (mustStand = true));

await say('ready');
await heard('go');
await say('contending');
const told = contender.run(async (held) => {
  let step = 0;
  await say('entered');
  while (!held.isLost()) {
    if (mustStand) {
      mustStand = false;
      await say('standing');
      // It has asked, and has not yet acted: here a pause does its worst.
      if (held.isLost()) break;
      process.kill(process.pid, 'SIGSTOP');
    }
    await attempt(witness, setup.owner, ++step);
    const command = writeCommand(setup.owner, step, held.token);
    try {
      if (held.write) await held.write(command);
      else await ledger.call(...(command as [string, ...string[]]));
    } catch {
      // Refused: whoever is, stops.
      break;
    }
    await sleep(STEP_MS);
  }
  await say('left');
});
try {
  await told;
} catch {
  // It tells of the loss once more, as an error. What it leaves unhandled is another matter, and ends this process.
}
