import { describe, expect, inject, test } from 'vitest';
import { startChild } from '../support/child.ts';

describe('a process that has closed its managers', () => {
  test.each(['ioredis', 'node-redis'])(
    'ends by itself, also if they were closed while %s was connecting',
    async (library) => {
      await using child = startChild(new URL('./fixtures/closes-early.ts', import.meta.url), {
        env: { REDIS_URL: inject('redisUrl'), LIBRARY: library },
      });
      await child.next('closed');
      const from = performance.now();
      expect(await child.exit).toEqual({ code: 0, signal: null });
      expect(performance.now() - from).toBeLessThan(3000);
    },
  );
});
