import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { test } from 'vitest';

/** From the oldest Node that we promise to the newest, each an alias in the package.json beside this file. */
export const nodes = ['20', '22', '24'] as const;

/**
 * A test that runs a program on a Node of its own. Where the registry has no binary for this machine, the test is reported
 * as not run, by name, and CI fails.
 */
export function testOnNode(major: (typeof nodes)[number], name: string, body: (node: string) => Promise<void>): void {
  const path = binary(major);
  if (existsSync(path)) test(name, () => body(path));
  // oxlint-disable-next-line vitest/no-disabled-tests -- not run is what must be reported
  else test.skip(`${name} [needs a Node ${major} for ${process.platform} ${process.arch}]`, () => body(path));
}

/** The newest Node that there is: compilers take a third less time on it than on the oldest. */
export function newestNode(): string {
  return nodes.map(binary).findLast((path) => existsSync(path)) ?? process.execPath;
}

function binary(major: string): string {
  const path = `node_modules/node-${major}-${process.platform}-${process.arch}/bin/node`;
  return fileURLToPath(new URL(path, import.meta.url));
}
