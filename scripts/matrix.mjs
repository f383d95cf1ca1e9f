// npm run matrix [-- version ...]: every test of the BullMQ adapter on each version of BullMQ that it promises.
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { parseArgs } from 'node:util';

import { others, typesOf } from '../test/bullmq-matrix/versions.mjs';
import { readOrExit } from './lib/arguments.mjs';
import { command, runNode } from './lib/foreground.mjs';
import { prepare, root } from './lib/prepare.mjs';
import { summarize } from './lib/results.mjs';
import { step } from './lib/steps.mjs';
import { services } from './services/binaries.mjs';
import { guardedFolder } from './services/guard.mjs';
import { ensure } from './services/obtain.mjs';

const files = ['packages/bullmq-adapter/test/', 'test/e2e/bullmq', 'test/bullmq-matrix/'];
const vitest = join(root, 'node_modules/vitest/vitest.mjs');

const installed = 'the installed one';

/** @returns {readonly string[] | null} */
function versionsWanted() {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: { help: { type: 'boolean', short: 'h' } },
  });
  if (values.help) return null;
  const unknown = positionals.find((version) => !others.includes(version));
  if (unknown !== undefined)
    throw new Error(`${unknown} is no version that is tested; there are ${others.join(', ')}; without one all are`);
  return positionals.length > 0 ? positionals : [...others, installed];
}

const wanted = readOrExit(versionsWanted, 'matrix [VERSION …]');

await command(async (stopping) => {
  await prepare(step);
  const paths = await ensure(['redis', 'postgres', 'faketime'], { step, optional: ['faketime'] });
  const found = Object.fromEntries(
    Object.entries(paths).map(([name, path]) => [services[/** @type {keyof typeof services} */ (name)].variable, path]),
  );

  /** @type {string[]} */
  const lines = [];
  let isAllRight = true;
  for (const version of wanted) {
    const isOther = version !== installed;
    process.stdout.write(`\n== BullMQ ${version}\n`);
    const begin = performance.now();
    const report = join(guardedFolder('results'), 'results.json');
    const env = { ...process.env, ...found, ...(isOther && { LEASEHOLD_BULLMQ: version }) };
    const reporters = ['--reporter=default', '--reporter=json', `--outputFile.json=${report}`];
    const args = ['run', '--project=unit', '--project=mocks', '--project=services', ...reporters, ...files];
    const tests = await runNode([vitest, ...args], { cwd: root, env, stopping });
    const types = isOther ? await checkTypes(version, stopping) : 0;
    if (stopping.aborted) return 1;
    const results = existsSync(report) ? JSON.parse(readFileSync(report, 'utf8')) : null;
    const { passed, failed, remarks } = summarize(results, tests, root);
    isAllRight &&= tests === 0 && types === 0;
    const seconds = ((performance.now() - begin) / 1000).toFixed(0);
    lines.push(
      `BullMQ ${version}: ${passed} passed, ${failed} failed${types === 0 ? '' : ', types do not fit'} (${seconds} s)`,
      ...remarks.map((remark) => `  ${remark}`),
    );
  }
  process.stdout.write(`\n${lines.join('\n')}\n`);
  return isAllRight ? 0 : 1;
});

/**
 * Compiles the sources and the tests of the adapter against the declarations of this version.
 *
 * @param {string} version
 * @param {AbortSignal} stopping
 */
async function checkTypes(version, stopping) {
  const config = join(root, `node_modules/.cache/bullmq-${version}/tsconfig.json`);
  mkdirSync(dirname(config), { recursive: true });
  const folder = join(root, 'packages/bullmq-adapter');
  const content = {
    extends: join(root, 'tsconfig.test.json'),
    compilerOptions: { paths: { bullmq: [typesOf(version)] }, typeRoots: [join(root, 'node_modules/@types')] },
    include: [join(folder, 'src'), join(folder, 'test')],
  };
  writeFileSync(config, JSON.stringify(content));
  return runNode([join(root, 'node_modules/typescript/bin/tsc'), '-p', config], {
    cwd: root,
    env: process.env,
    stopping,
  });
}
