import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { cpus, totalmem, type } from 'node:os';
import { dirname, join } from 'node:path';

import type { Peer } from './adapters/peer.ts';
import type { Finding } from './judge.ts';
import type { Proof } from './proofs/index.ts';

export interface Row {
  readonly peer: Peer;
  /** By the name of the proof, each time that it was played. */
  readonly findings: ReadonlyMap<string, readonly Finding[]>;
}

export interface Circumstances {
  readonly date: string;
  readonly leaseMs: number;
  readonly repeat: number;
  readonly node: string;
  readonly redis: string;
  readonly machine: string;
}

export function circumstances(leaseMs: number, repeat: number, redis: string): Circumstances {
  const [cpu] = cpus();
  return {
    date: new Date().toISOString().slice(0, 10),
    leaseMs,
    repeat,
    node: process.version,
    redis,
    machine: `${type()} ${process.arch}, ${cpus().length} cores (${cpu?.model.trim()}), ${Math.round(totalmem() / 2 ** 30)} GB`,
  };
}

const require = createRequire(import.meta.url);

/** As it is installed here. */
export function versionOf({ dependency }: Peer): string {
  for (const folder of require.resolve.paths(dependency) ?? []) {
    try {
      const manifest = JSON.parse(readFileSync(join(folder, dependency, 'package.json'), 'utf8')) as {
        readonly version: string;
      };
      return manifest.version === '0.0.0' ? '(unreleased)' : manifest.version.replace(/^v/, '');
    } catch {
      continue;
    }
  }
  throw new Error(`${dependency} is not installed; looked from ${dirname(import.meta.url)}`);
}

const marks = { holds: '✅', fails: '❌', 'left out': '–' } as const;

/** What was played several times counts as its worst. */
function summaryOf(findings: readonly Finding[]): Finding {
  const worst = findings.find(({ verdict }) => verdict === 'fails') ?? findings[0];
  if (worst === undefined) throw new Error('nothing was played');
  const failed = findings.filter(({ verdict }) => verdict === 'fails').length;
  const often = failed > 0 && failed < findings.length ? ` (${failed} of ${findings.length} times)` : '';
  return { ...worst, text: `${worst.text}${often}` };
}

export function page(rows: readonly Row[], proofs: readonly Proof[], its: Circumstances): string {
  const head = ['', ...proofs.map(({ title }) => title)];
  const table = [
    head,
    head.map(() => '---'),
    ...rows.map(({ peer, findings }) => [
      `${peer.name} ${versionOf(peer)}`,
      ...proofs.map(({ name }) => cell(findings.get(name) ?? [])),
    ]),
  ];
  return `# Six failures of an owner, and other libraries

Written by \`npm run peers\`, which plays all of this again and renews the page. ${its.date}, ${its.machine}, Node ${its.node}, redis-server ${its.redis}; leases of ${its.leaseMs / 1000} s; each played ${its.repeat === 1 ? 'once' : `${its.repeat} times, and the worst of them counts`}.

${table.map((cells) => `| ${cells.join(' | ')} |`).join('\n')}

## How it is judged

By a ledger, not by what a library says of itself. The protected resource is a redis-server of its own, apart from the one with the locks,
which each owner reaches by another way. It keeps what was tried and what was accepted, each with its own time. A *late write* is one that was
accepted from an owner after the first one of the next. Owners are real processes, the stores real servers; faults are signals, a proxy on the way,
deleted keys and a shifted clock. An owner acts each 25 ms for as long as its library has not told it of a loss: it asks before each step.

${proofs.map(({ title, rule }) => `- **${title}.** ${rule}`).join('\n')}

One redis-server, for all. redlock is made for several; that changes who grants a lock, not what an owner does after it is gone.

## What each was given

Its own documented way to extend, to tell of a loss and to stop, in the setting that is best here. Leases of ${its.leaseMs / 1000} s are short so that a run
takes minutes.

${rows.map(({ peer }) => `- **${peer.name}**: ${peer.configuration}.`).join('\n')}

## What to make of it

- No lock keeps out a write that is already on its way, nor one of a process that stood still between its check and its write. Only the
  resource can. That is the row of Leasehold without a fence: it tells of a loss in time, and still lets late writes in.
- None of the other libraries claims to have fencing tokens. A ❌ is a failure that a user of theirs has to expect and handle, not a broken
  promise.
- A ❌ in column 4 with “alone” is no danger by itself: the store goes by its own clock and the lock is still extended.
- What these six do not show: throughput, quorums of several servers, waiting in turn, other stores. A library that fails here can be the
  right one where a doubled run costs nothing.
- Each number is one measurement on one machine; docs/comparison.json has them all. The verdicts are what repeats.
`;
}

function cell(findings: readonly Finding[]): string {
  const { verdict, text } = summaryOf(findings);
  return `${marks[verdict]} ${text.replaceAll('|', '\\|')}`;
}

export function plain(rows: readonly Row[], proofs: readonly Proof[]): string {
  return rows
    .flatMap(({ peer, findings }) => [
      `\n${peer.name} ${versionOf(peer)}`,
      ...proofs.map(({ name, title }) => {
        const { verdict, text } = summaryOf(findings.get(name) ?? []);
        return `  ${verdict.padEnd(8)}  ${title}: ${text.replaceAll('*', '')}`;
      }),
    ])
    .join('\n');
}
