// npm test [-- arguments of vitest]
//
// LEASEHOLD_ALL_TESTS=1: a test that was not run fails the command.
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

import { command, runNode } from './lib/foreground.mjs';
import { prepare, root } from './lib/prepare.mjs';
import { summarize } from './lib/results.mjs';
import { step } from './lib/steps.mjs';
import { services, tools } from './services/binaries.mjs';
import { guardedFolder } from './services/guard.mjs';
import { ensure } from './services/obtain.mjs';

/** Projects of vitest that are asked for by name. */
const named = process.argv
  .slice(2)
  .flatMap((argument, at, all) =>
    argument === '--project' ? (all[at + 1] ?? []) : (/^--project=(.+)/.exec(argument)?.[1] ?? []),
  );
/** No service either, and no tool. */
const needsNothing = named.length > 0 && named.every((name) => ['unit', 'mocks'].includes(name));

await command(async (stopping) => {
  await prepare(step);
  const paths = needsNothing ? {} : await ensure(['redis', 'postgres', ...tools], { step, optional: tools });
  const found = Object.fromEntries(
    Object.entries(paths).map(([name, path]) => [services[/** @type {keyof typeof services} */ (name)].variable, path]),
  );

  const report = join(guardedFolder('results'), 'results.json');
  const args = [
    'run',
    '--reporter=default',
    '--reporter=json',
    `--outputFile.json=${report}`,
    ...process.argv.slice(2),
  ];
  const code = await runNode([join(root, 'node_modules/vitest/vitest.mjs'), ...args], {
    cwd: root,
    env: { ...process.env, ...found },
    stopping,
  });
  if (stopping.aborted) return code;

  const results = existsSync(report) ? JSON.parse(readFileSync(report, 'utf8')) : null;
  const { passed, failed, notRun: all, remarks } = summarize(results, code, root);
  // Whoever asks for tests by name does not want to read the names of all the others.
  const byName = process.argv.slice(2).some((argument) => /^(-t|--testNamePattern)/.test(argument));
  const notRun = byName ? all.filter((name) => name.includes('[needs ')) : all;
  const lines = [...remarks];
  if (notRun.length > 0) lines.push(`Not run (${notRun.length}):`, ...notRun.map((name) => `  ${name}`));
  lines.push(`${passed} passed, ${failed} failed`);
  process.stdout.write(`${lines.join('\n')}\n`);
  if (failed > 0 || code !== 0) return 1;
  // What only a machine can permit is told of, and fails nowhere.
  const avoidable = notRun.filter((name) => !/\[needs (namespaces|freezer)\]/.test(name));
  return avoidable.length > 0 && process.env['LEASEHOLD_ALL_TESTS'] === '1' ? 1 : 0;
});
