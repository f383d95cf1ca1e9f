import { spawnSync } from 'node:child_process';
import { test } from 'vitest';

import { find } from '../../scripts/services/binaries.mjs';
import { thisMachine } from '../../scripts/services/machine.mjs';
import { freezers } from './freezer.ts';

const needs = {
  libfaketime: () => find('faketime', thisMachine).path !== null,
  tmux: () => find('tmux', thisMachine).path !== null,
  promtool: () => find('promtool', thisMachine).path !== null,
  /** Beside the server, where that was installed. */
  'redis-cli': () => spawnSync('redis-cli', ['--version']).status === 0,
  /** Root, which may make namespaces of processes and of mounts. */
  namespaces: () =>
    process.getuid?.() === 0 && spawnSync('unshare', ['--pid', '--fork', '--mount-proc', 'true']).status === 0,
  /** The same, and the tool that links networks. */
  networks: () =>
    process.getuid?.() === 0 &&
    spawnSync('unshare', ['--net', 'ip', 'link', 'add', 'near', 'type', 'veth', 'peer', 'name', 'far']).status === 0,
  freezer: () => freezers().length > 0,
} as const;

/**
 * A test that needs something which not every machine has. Without it the test is reported as not run, by name, and CI fails:
 * not for `namespaces` and `freezer`, which only a machine can permit.
 */
export function testNeeding(tool: keyof typeof needs, name: string, body: () => Promise<void> | void): void {
  if (needs[tool]()) test(name, body);
  // oxlint-disable-next-line vitest/no-disabled-tests -- not run is what must be reported
  else test.skip(`${name} [needs ${tool === 'networks' ? 'namespaces' : tool}]`, body);
}
