import { MemoryLeaseStore } from '@leasehold/core';
import { expect, test, vi } from 'vitest';

import type { AnyJobHandler } from '../../src/run/context.ts';
import { runConfig } from '../../src/run/run-config.ts';
import { readable } from '../../src/run/thrown.ts';
import { recordingLog } from './support/log.ts';
import { configOf, cronJob, intervalJob } from './support/settings.ts';

function refuse(): never {
  throw new TypeError('not to be looked at');
}

const opaque = new Proxy({}, { get: refuse, getPrototypeOf: refuse, has: refuse, ownKeys: refuse });
const guarded = Object.defineProperty(new Error('guarded'), 'message', { get: refuse });

const THROWN: readonly (readonly [what: string, thrown: unknown, told: string])[] = [
  ['null', null, 'no Error was thrown but null'],
  ['undefined', undefined, 'no Error was thrown but undefined'],
  ['a text', 'broken', "no Error was thrown but 'broken'"],
  ['a proxy that throws', opaque, 'what was thrown cannot be read: it throws when it is looked at'],
  ['an error that throws', guarded, 'what was thrown cannot be read: it throws when it is looked at'],
];

for (const kind of ['interval', 'cron'] as const) {
  test.each(THROWN)(
    `%s, thrown by the handler of a job of the kind ${kind}, fails its run and is no failure of the store`,
    async (_what, thrown, told) => {
      const { log, lines } = recordingLog();
      const job = kind === 'interval' ? intervalJob('job') : cronJob('job');
      await using running = await runConfig(configOf([job]), {
        handlers: { job: vi.fn<AnyJobHandler>().mockRejectedValue(thrown) },
        log,
        store: new MemoryLeaseStore(),
      });
      await vi.waitFor(() => expect(lines.map(({ msg }) => msg)).toContain('run failed'), 5000);
      const body = await (await fetch(`http://127.0.0.1:${running.port}/metrics`)).text();
      await running.close();
      expect(lines.find(({ msg }) => msg === 'run failed')).toMatchObject({ level: 50, err: { message: told } });
      expect(lines.map(({ msg }) => msg)).not.toContain('the store or a fence cannot be asked, so nothing runs');
      expect(lines.filter(({ level, msg }) => level >= 40 && msg.startsWith('node-cron'))).toEqual([]);
      expect(body).toMatch(/leasehold_runs_total\{job="job",outcome="failed"\} [1-9]/);
      expect(body).not.toMatch(/leasehold_store_errors_total\{/);
    },
  );
}

test('an error that can be read stays what it is', () => {
  const error = new Error('broken', { cause: new Error('because') });
  const plain = { reason: 'mine' };
  expect(readable(error)).toBe(error);
  expect(readable(plain)).toBe(plain);
});
