import { expect, test } from 'vitest';

import { boundsFromEnv, checkEnv, fenceBoundsFromEnv } from './bounds-from-env.ts';
import type { Bounds } from './world.ts';

const usual: Bounds = {
  ...{ processes: 2, leaseIds: 3, crashes: 1, tries: true, handsOver: true, forces: true, drops: true, ghosts: 1 },
  ...{ writes: 0, diagnoses: 0, revokes: 0, ttl: 2, refresh: 1, states: 1000, probeEvery: 5 },
};

test('the environment says what is other than usual', () => {
  const env = { PATH: '/bin', MODEL_CRASHES: '0', MODEL_TRIES: '0', MODEL_TTL: '', MODEL_AGENTS: '2' };
  expect(() => checkEnv(env)).not.toThrow();
  expect(boundsFromEnv({ PATH: '/bin' }, usual)).toEqual(usual);
  expect(boundsFromEnv(env, usual)).toEqual({ ...usual, crashes: 0, tries: false });
  expect(fenceBoundsFromEnv(env)).toMatchObject({ agents: 2, losses: 2 });
});

test.each([
  [{ MODEL_CRASH: '1' }, /^MODEL_CRASH: there is no such bound; there are MODEL_PROCESSES, /],
  [{ MODEL_CRASHES: 'one' }, 'MODEL_CRASHES is one: it must be a whole number from 0'],
  [{ MODEL_PROCESSES: '0' }, 'MODEL_PROCESSES is 0: it must be a whole number from 1'],
  // Nothing would be probed.
  [{ MODEL_PROBE_EVERY: '0' }, 'MODEL_PROBE_EVERY is 0: it must be a whole number from 1'],
  [{ MODEL_AGENTS: '1.5' }, 'MODEL_AGENTS is 1.5: it must be a whole number from 1'],
])('%o is refused', (env: Record<string, string>, why) => {
  expect(() => checkEnv(env)).toThrow(why);
});
