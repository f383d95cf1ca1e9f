import { execFileSync } from 'node:child_process';
import { expect, test } from 'vitest';
import { call } from './call.ts';

/** What bash offers after these words; the last is the one being typed. */
function offered(script: string, words: readonly string[]): string[] {
  const line = words.map((word) => `'${word}'`).join(' ');
  const ask = `COMP_WORDS=(leasehold ${line}); COMP_CWORD=${words.length}; compopt() { :; }; _leasehold; printf '%s\\n' "\${COMPREPLY[@]}"`;
  return execFileSync('bash', ['-c', `${script}\n${ask}`], { encoding: 'utf8' })
    .split('\n')
    .filter((word) => word !== '');
}

test('bash completes commands, and the options of the command that was typed', async () => {
  const { code, stdout } = await call(['completion', 'bash']);
  expect(code).toBe(0);
  expect(offered(stdout, ['s'])).toEqual(['show', 'stop', 'seal', 'schema']);
  expect(offered(stdout, ['fence', 's'])).toEqual(['sql', 'status']);
  expect(offered(stdout, ['fence', 'prune', '--o'])).toEqual(['--older-than']);
  expect(offered(stdout, ['ls', '--h'])).toEqual(['--held', '--help']);
  expect(offered(stdout, ['stop', 'ls', '--r'])).toEqual(['--reason']);
  expect(offered(stdout, ['exec', 'r', '--', '--t'])).toEqual([]);
});

test.each(['zsh', 'fish'])('%s has every command with what it does, and its options', async (shell) => {
  const { code, stdout } = await call(['completion', shell]);
  expect(code).toBe(0);
  for (const text of ['ask the owner to let go, and wait until it has', 'reason', 'held', 'leasehold']) {
    expect(stdout).toContain(text);
  }
});
