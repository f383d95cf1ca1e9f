// Plays the libraries through the proofs and writes docs/comparison.md and docs/comparison.json, if nothing was left out on
// the command line.
import { writeFileSync } from 'node:fs';

import { readOrExit } from '../../scripts/lib/arguments.mjs';
import { connectRedis } from '../support/redis-client.ts';
import { startRedis } from '../support/redis-server.ts';
import { argumentsOf, USAGE } from './arguments.ts';
import { catalog, peerNamed } from './catalog.ts';
import type { Finding } from './judge.ts';
import { play } from './play.ts';
import {
  clockStepped,
  cutOff,
  cutOffWithTimeout,
  keysDeleted,
  killed,
  stopped,
  succeeded,
  type Proof,
} from './proofs/index.ts';
import { circumstances, page, plain, versionOf, type Row } from './report.ts';

const all: readonly Proof[] = [killed, stopped, cutOff, cutOffWithTimeout, clockStepped, keysDeleted, succeeded];
const proofNames = all.map(({ name }) => name);
const wanted = readOrExit(() => argumentsOf(process.argv.slice(2), proofNames), USAGE);
const { leaseMs, repeat, parallel } = wanted;
const proofs = all.filter(({ name }) => wanted.proofs?.includes(name) ?? true);
const keys = wanted.peers ?? [...catalog.keys()];

const rows = await Promise.all(
  keys.map(async (key) => ({ key, peer: await peerNamed(key), findings: new Map<string, Finding[]>() })),
);
const plays = rows.flatMap((row) => proofs.flatMap((proof) => Array.from({ length: repeat }, () => ({ row, proof }))));
let over = 0;
const total = plays.length;
const failures: string[] = [];

await Promise.all(
  Array.from({ length: parallel }, async () => {
    for (let next = plays.shift(); next !== undefined; next = plays.shift()) {
      const { row, proof } = next;
      try {
        const finding = await play(row.key, row.peer, proof, leaseMs);
        row.findings.set(proof.name, [...(row.findings.get(proof.name) ?? []), finding]);
        console.log(`${++over} of ${total}: ${row.peer.name}, ${proof.title}: ${finding.verdict}, ${finding.text}`);
      } catch (error) {
        failures.push(`${row.peer.name}, ${proof.title}: ${String(error)}`);
        console.log(`${++over} of ${total}: ${failures.at(-1)}`);
      }
    }
  }),
);

if (failures.length > 0) {
  console.log(`\nCould not be played:\n${failures.join('\n')}`);
  process.exit(1);
}
console.log(plain(rows, proofs));
if (wanted.peers === undefined && wanted.proofs === undefined) await write(rows);
process.exit(0);

async function write(its: readonly Row[]): Promise<void> {
  await using server = await startRedis();
  await using client = await connectRedis(server.url);
  const version = /redis_version:(\S+)/.exec(await client.info('server'))?.[1] ?? 'unknown';
  const found = circumstances(leaseMs, repeat, version);
  const docs = new URL('../../docs/', import.meta.url);
  writeFileSync(new URL('comparison.md', docs), page(its, proofs, found));
  const json = {
    ...found,
    proofs: proofs.map(({ name, title, rule }) => ({ name, title, rule })),
    peers: its.map(({ peer, findings }) => ({
      name: peer.name,
      version: versionOf(peer),
      configuration: peer.configuration,
      findings: Object.fromEntries(findings),
    })),
  };
  writeFileSync(new URL('comparison.json', docs), `${JSON.stringify(json, null, 2)}\n`);
  console.log('\nWritten: docs/comparison.md and docs/comparison.json');
}
