import { defineConfig } from 'vitest/config';

// Tests run the TypeScript sources: every export of a workspace package has the condition `@leasehold/source`.
const conditions = ['@leasehold/source'];

const shared = {
  environment: 'node',
  retry: 0, // a flaky test is a bug found
  testTimeout: 20_000,
  hookTimeout: 60_000,
} as const;

const sideBySide = ['test/{conformance,postgres,http,conditional,recipes}/**/*.test.ts'];

export default defineConfig({
  test: {
    projects: [
      {
        resolve: { conditions },
        ssr: { resolve: { conditions } },
        test: {
          ...shared,
          name: 'unit', // no service
          include: ['packages/*/test/**/*.test.ts'],
          // Their clock stands still, so they may share the cores.
          maxWorkers: '100%',
          sequence: { groupOrder: 0 },
        },
      },
      {
        resolve: { conditions },
        ssr: { resolve: { conditions } },
        test: {
          ...shared,
          name: 'services', // one private Redis and one private PostgreSQL, shared by all files
          include: ['test/**/*.test.ts'],
          exclude: [...sideBySide, 'test/packaging/**', '**/node_modules/**'],
          globalSetup: ['test/support/global-setup.ts'],
          setupFiles: ['test/support/setup.ts'],
          sequence: { groupOrder: 1 },
        },
      },
      {
        resolve: { conditions },
        ssr: { resolve: { conditions } },
        test: {
          ...shared,
          name: 'fences', // their time is not watched so closely that two files could not share the cores
          include: sideBySide,
          globalSetup: ['test/support/global-setup.ts'],
          setupFiles: ['test/support/setup.ts'],
          maxWorkers: 3, // they wait more than they compute
          sequence: { groupOrder: 2 },
        },
      },
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
