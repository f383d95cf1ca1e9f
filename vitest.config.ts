import { defineConfig } from 'vitest/config';

import { bullmqOf, others } from './test/bullmq-matrix/versions.mjs';

// Tests run the TypeScript sources: every export of a workspace package has the condition `@leasehold/source`.
const conditions = ['@leasehold/source'];

// `npm run matrix` sets it.
const { alias, env, exclude } = bullmqOf(process.env['LEASEHOLD_BULLMQ']);

const shared = {
  environment: 'node',
  retry: 0, // a flaky test is a bug found
  testTimeout: 20_000,
  hookTimeout: 60_000,
} as const;

/** The rest of the adapter's tests is run by `npm run matrix`. */
const otherBullmqs = others.map((version) => {
  const { alias, env } = bullmqOf(version);
  return {
    resolve: { conditions, alias },
    ssr: { resolve: { conditions } },
    test: {
      ...shared,
      env,
      name: `bullmq-${version}`, // what must be so in every version that we promise
      include: ['test/e2e/bullmq.test.ts', 'test/bullmq-matrix/*.test.ts'],
      globalSetup: ['test/bullmq-matrix/global-setup.ts'],
      setupFiles: ['test/support/setup.ts'],
      maxWorkers: 3, // as the group that it is in
      sequence: { groupOrder: 2 },
    },
  };
});

/** Tests that replace modules, or count timers, and so need processes of their own. */
const mocking = [
  'packages/core/test/conditional/**/*.test.ts',
  'packages/core/test/http/signature.test.ts',
  'packages/cli/test/config/handlers.test.ts',
  'packages/bullmq-adapter/test/{put-back,worker-scope-election}.test.ts',
];

/** Tests that watch the time so closely that nothing else may run beside them. */
const timed = ['test/e2e/{clock-steps,many-leases,silent-store,waiting}.test.ts', 'test/demo/**/*.test.ts'];

export default defineConfig({
  test: {
    projects: [
      {
        resolve: { conditions, alias },
        ssr: { resolve: { conditions } },
        test: {
          ...shared,
          env,
          name: 'unit', // no service
          include: ['packages/*/test/**/*.test.ts'],
          exclude: mocking,
          // Their clock stands still, so they may share the cores. One process runs many files: to load the sources for each
          // file anew took as long as the tests.
          isolate: false,
          maxWorkers: '100%',
          sequence: { groupOrder: 0 },
        },
      },
      {
        resolve: { conditions, alias },
        ssr: { resolve: { conditions } },
        test: { ...shared, env, name: 'mocks', include: mocking, maxWorkers: '100%', sequence: { groupOrder: 0 } },
      },
      {
        resolve: { conditions, alias },
        ssr: { resolve: { conditions } },
        test: {
          ...shared,
          env,
          name: 'timed',
          include: timed,
          globalSetup: ['test/support/global-setup.ts'],
          setupFiles: ['test/support/setup.ts'],
          sequence: { groupOrder: 1 },
        },
      },
      {
        resolve: { conditions, alias },
        ssr: { resolve: { conditions } },
        test: {
          ...shared,
          env,
          isolate: false, // as above; what a file opened is closed when it is over
          name: 'services', // one private Redis and one private PostgreSQL, shared by all files
          include: ['test/**/*.test.ts'],
          exclude: [...timed, ...exclude, 'test/packaging/**', '**/node_modules/**'],
          globalSetup: ['test/support/global-setup.ts'],
          setupFiles: ['test/support/setup.ts'],
          maxWorkers: 3, // they wait more than they compute
          sequence: { groupOrder: 2 },
        },
      },
      ...otherBullmqs,
      {
        resolve: { conditions },
        ssr: { resolve: { conditions } },
        test: {
          ...shared,
          name: 'packaging', // what users install. It keeps every core busy, so it comes after the tests that watch the time
          include: ['test/packaging/**/*.test.ts'],
          setupFiles: ['test/support/setup.ts'],
          sequence: { groupOrder: 3 },
        },
      },
    ],
  },
});
