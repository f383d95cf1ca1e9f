// Ctrl-C while `leasehold force-release` is at work, at each of its steps.
import { AsyncLocalStorage } from 'node:async_hooks';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Readable, Writable } from 'node:stream';
import type { ReleaseStep } from '@leasehold/core/diagnosis';
import { expect, inject, test } from 'vitest';

import { main } from '../../packages/cli/src/program.ts';
import { guardedFolder, removeFolder } from '../../scripts/services/guard.mjs';
import { incident } from './release-support.ts';

/** The handlers of signals that each call of the command has set: several are at work at the same time. */
const handlers = new AsyncLocalStorage<((signal: NodeJS.Signals) => void)[]>();

interface Ended {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** One command line, sent SIGINT as soon as it says this. `typed`: at a terminal, where it is asked before. */
function interrupted(args: readonly string[], says: string, typed?: Readable): Promise<Ended> {
  const mine: ((signal: NodeJS.Signals) => void)[] = [];
  const texts = { stdout: '', stderr: '' };
  let isSent = false;
  const stderr = new Writable({
    write(bytes, _encoding, done) {
      texts.stderr += bytes;
      if (!isSent && texts.stderr.includes(says)) {
        isSent = true;
        // In the midst of the step.
        setImmediate(() => {
          if (mine.length === 0) throw new Error('nobody hears the signal');
          for (const handle of mine) handle('SIGINT');
        });
      }
      done();
    },
  });
  const isTTY = typed !== undefined;
  return handlers.run(mine, async () => {
    const code = await main(args, {
      env: {},
      stdin: Object.assign(typed ?? Readable.from([]), { isTTY }),
      stdout: { write: (text) => void (texts.stdout += text) },
      stderr: Object.assign(stderr, { isTTY }),
    });
    return { code, ...texts };
  });
}

test('at every step: nothing is released before the store was asked to, what was sealed is told and logged, and what is done is told as done', async () => {
  await using here = await incident();
  const { namespace } = here.operator;
  const dir = guardedFolder('interrupted');
  await using _dir = { [Symbol.asyncDispose]: async () => removeFolder(dir) };
  const file = join(dir, 'leasehold.yaml');
  const url = inject('redisUrl');
  writeFileSync(
    file,
    `version: 1\nstore: { redis: '${url}', prefix: ${namespace} }\nfences: { ledger: { redis: '${url}' } }\njobs: { none: { every: 1h, handler: ./none.js } }\n`,
  );
  const hear = (event: string | symbol, handle: (signal: NodeJS.Signals) => void): void => {
    if (event === 'SIGINT') handlers.getStore()?.push(handle);
  };
  process.on('newListener', hear);
  await using _hear = { [Symbol.asyncDispose]: async () => void process.off('newListener', hear) };

  const steps: readonly (ReleaseStep | 'asked' | 'asked, by key')[] = [
    ...(['watching', 'asked', 'asked, by key', 'checking again', 'sealing'] as const),
    ...(['trying the old token', 'releasing', 'waiting for the next owner'] as const),
  ];
  const held = new Map<string, string>();
  for (const step of steps) held.set(step, (await here.hold(step)).leaseId);
  await here.owner.kill9();

  const asked = new Readable({ read() {} });
  const ended = await Promise.all(
    steps.map((step) => {
      const line = ['force-release', step, '--lease-id', held.get(step) ?? '', '--reason', 'drill', '-c', file];
      const watched = [...line, '--watch', '1h'];
      if (step === 'asked') return interrupted(watched, `Type ${step} to go on`, asked);
      // As a terminal gives it that has left the key to the program.
      if (step === 'asked, by key') return interrupted(watched, 'nothing that it says', Readable.from(['\u0003']));
      return interrupted([...watched, '--yes'], `${step} …`);
    }),
  );

  // Nobody reads what is typed next.
  expect(asked.isPaused()).toBe(true);

  for (const [at, step] of steps.entries()) {
    const { code, stdout, stderr } = ended[at] as Ended;
    const leaseId = held.get(step);
    const record = await here.operator.inspect(step);
    const [log, ...more] = await here.operator.history(step);
    const highest = await here.ledger.highest(`${namespace}/${step}`);
    expect(more).toEqual([]);
    if (step === 'releasing' || step === 'waiting for the next owner') {
      expect([step, code, stdout]).toEqual([step, 0, expect.stringContaining(`released (${step}, `)]);
      expect(stdout).toContain('The old token was tried again, and refused by ledger.');
      expect(record).toMatchObject({ state: 'free', previous: { reason: 'force-released' } });
      expect(log).toMatchObject({ event: 'forced', detail: expect.stringContaining('old token refused: ledger') });
      continue;
    }
    expect([step, code, stdout]).toEqual([step, 130, '']);
    expect(record).toMatchObject({ leaseId, state: 'expired', previous: null });
    if (step === 'sealing' || step === 'trying the old token') {
      expect(stderr).toMatch(/not released: .*; sealed by then, and it stays so: ledger$/m);
      expect(highest?.leaseId).toBeNull();
      expect(log).toMatchObject({
        event: 'sealed',
        detail: expect.stringMatching(/@.*: drill \(ledger; not released; /),
      });
    } else {
      expect(stderr).toMatch(/(SIGINT: nothing was released|interrupted; nothing was done)/);
      expect(highest?.leaseId).toBe(leaseId);
      expect(log).toBeUndefined();
    }
  }
});
