import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { guardedFolder, removeFolder } from '../../scripts/services/guard.mjs';
import { startChild } from '../support/child.ts';
import { runCli } from './fixtures/cli-process.ts';

const folder = guardedFolder('config-loading');
afterAll(() => removeFolder(folder));

function file(name: string, text: string): string {
  const path = join(folder, name);
  writeFileSync(path, text);
  return path;
}

const config = (name: string): string =>
  `version: 1\nstore: { redis: 'redis://127.0.0.1:1' }\njobs:\n  a: { every: 5m, handler: '${name}' }\n`;
const ENDED =
  'ended the process while it was loaded; a module that cannot be used throws; it does not call process.exit()';

test('a handler that ends the process while it is loaded makes no check pass: exit 2, and the file is named', async () => {
  file('zero.mjs', 'process.exit(0);\n');
  const zero = file('zero.yaml', config('./zero.mjs'));
  const hidden = file('hidden.yaml', config('./${NAME}.mjs'));
  const said = `${zero}:4:28 jobs.a.handler: './zero.mjs' ${ENDED}\n`;
  const [validated, shown, ran, secret] = await Promise.all([
    runCli(['validate', zero]),
    runCli(['run', '--dry-run', zero]),
    runCli(['run', zero]),
    runCli(['validate', hidden], { env: { NAME: 'zero' } }),
  ]);
  for (const result of [validated, shown, ran]) expect(result).toEqual({ code: 2, stdout: '', stderr: said });
  expect(secret).toMatchObject({ code: 2, stderr: expect.stringContaining('the file from ./${NAME}.mjs ended') });
});

test('so does a config that is a module', async () => {
  const path = file('leasehold.config.mjs', 'process.exit();\n');
  expect(await runCli(['validate', path])).toEqual({ code: 2, stdout: '', stderr: `${path}: ${ENDED}\n` });
});

test('a module that never finishes loading is given up, and the process that waits for it lives until then', async () => {
  const path = file('never.mjs', 'await new Promise(() => {});\n');
  await using child = startChild(new URL('./fixtures/imports-never.ts', import.meta.url), { args: [path] });
  expect(await child.exit).toEqual({ code: 0, signal: null });
  expect(child.output).toBe('did not finish loading within 0.2 s\n');
});
