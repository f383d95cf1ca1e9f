// npm run prove [-- --quick | --long] [--only PART[,PART]]: all that stands behind docs/proof.md, one part after the other, on servers
// that it starts itself. Exits with 1 if a part fails.
import { join } from 'node:path';
import { parseArgs } from 'node:util';

import { readOrExit } from './lib/arguments.mjs';
import { command, runNode } from './lib/foreground.mjs';
import { prepare, root, sourceArgs } from './lib/prepare.mjs';
import { step } from './lib/steps.mjs';
import { ensure } from './services/obtain.mjs';
import { startRedis } from './services/redis.mjs';

/** What each part is given, by how much patience there is. */
const sizes = {
  quick: { models: ['whole'], seeds: '2000', repeat: '1', minutes: '2' },
  normal: { models: ['whole', 'lease', 'fence'], seeds: '20000', repeat: '5', minutes: '10' },
  long: { models: ['whole', 'lease', 'fence'], seeds: '100000', repeat: '50', minutes: '60' },
};

const script = (/** @type {string} */ name) => join(root, 'scripts', `${name}.mjs`);

/** @type {Record<string, { what: string, run: (size: typeof sizes.normal, tools: Tools) => Promise<number> }>} */
const parts = {
  rules: {
    what: 'seeded bugs: each rule, each conformance case and each model fails where it has to',
    run: (_, { node }) =>
      node([
        script('test'),
        ...['--project', 'unit', 'packages/core/test/testing', 'packages/core/test/simulator/bugs'],
        ...['packages/core/test/model'],
      ]),
  },
  model: {
    what: 'all interleavings of a small world; seconds to minutes for each line',
    run: async ({ models }, { node }) => {
      for (const name of models) {
        const code = await node([script('model'), name]);
        if (code !== 0) return code;
      }
      return 0;
    },
  },
  simulation: {
    what: 'managers, store and fence in one process under faults that a seed decides',
    run: ({ seeds }, { node }) => node([script('simulate'), '--seeds', seeds]),
  },
  drills: {
    what: 'the proofs, on real processes and a real server',
    run: async ({ repeat }, { node }) => {
      const { redis } = await ensure(['redis'], { step });
      if (redis === undefined) throw new Error('no redis-server');
      const { url } = await startRedis({ binary: redis });
      const main = join(root, 'packages/cli/src/bin.ts');
      return node([...sourceArgs(), main, 'drill', '--yes', '--url', url, '--ttl', '1s', '--repeat', repeat]);
    },
  },
  conformance: {
    what: 'each store and each fence, on real servers',
    run: (_, { node }) =>
      node([script('test'), '--project', 'services', 'test/conformance', 'test/postgres/conformance']),
  },
  chaos: {
    what: 'managers, schedulers and workers as processes, under every fault and pairs of them',
    run: ({ minutes }, { node }) => node([script('chaos'), '--pairs', '--minutes', minutes]),
  },
};

/** @typedef {{ node: (args: readonly string[]) => Promise<number> }} Tools */

const USAGE = `prove [--quick | --long] [--only ${Object.keys(parts).join(',')}]`;

/** Null if they ask how it is used. @returns {{ size: typeof sizes.normal, names: readonly string[] } | null} */
function argumentsOf() {
  const { values } = parseArgs({
    options: {
      quick: { type: 'boolean' },
      long: { type: 'boolean' },
      only: { type: 'string', multiple: true },
      help: { type: 'boolean', short: 'h' },
    },
  });
  if (values.help) return null;
  if (values.quick && values.long) throw new Error('--quick and --long: only one of them');
  const names = values.only?.flatMap((each) => each.split(',')) ?? Object.keys(parts);
  const unknown = names.find((name) => !Object.hasOwn(parts, name));
  if (unknown !== undefined)
    throw new Error(`--only ${unknown}: there is no such part; there are ${Object.keys(parts).join(', ')}`);
  return { size: values.quick ? sizes.quick : values.long ? sizes.long : sizes.normal, names };
}

const { size, names } = readOrExit(argumentsOf, USAGE);

await command(async (stopping) => {
  await prepare(step);
  const node = (/** @type {readonly string[]} */ args) => runNode(args, { cwd: root, env: process.env, stopping });
  /** @type {string[]} */
  const results = [];
  let failed = 0;
  for (const [name, { what, run }] of Object.entries(parts)) {
    if (!names.includes(name)) continue;
    process.stdout.write(`\n── ${name}: ${what}\n`);
    const began = performance.now();
    const code = await run(size, { node });
    if (stopping.aborted) return 1;
    if (code !== 0) failed++;
    results.push(`${code === 0 ? 'proven' : 'FAILED'}  ${name} (${((performance.now() - began) / 1000).toFixed(0)} s)`);
  }
  process.stdout.write(`\n${results.join('\n')}\n`);
  return failed === 0 ? 0 : 1;
});
