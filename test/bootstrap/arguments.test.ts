import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';

const run = (name: string, ...args: readonly string[]) =>
  spawnSync(process.execPath, [fileURLToPath(new URL(`../../scripts/${name}.mjs`, import.meta.url)), ...args], {
    encoding: 'utf8',
    timeout: 20_000,
  });

test.concurrent.each([
  ['prove', ['--only', 'nosuch'], /^--only nosuch: there is no such part; there are rules, .*\nprove \[/],
  ['prove', ['chaos'], /^Unexpected argument 'chaos'.*\nprove \[/],
  ['matrix', ['99.0.0'], /^99\.0\.0 is no version that is tested; there are .*\nmatrix \[/],
] as const)('%s %j is refused in words before anything is done', async (name, args, why) => {
  const { status, stdout, stderr } = run(name, ...args);
  expect(status).toBe(2);
  expect(stdout).toBe('');
  expect(stderr).toMatch(why);
});

test('who asks how a command is used is told so, and that is no failure', () => {
  const { status, stdout, stderr } = run('matrix', '--help');
  expect({ status, stdout, stderr }).toEqual({ status: 0, stdout: 'matrix [VERSION …]\n', stderr: '' });
});
