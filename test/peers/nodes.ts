import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

/** A Node for a library that this one is too old for; null if the registry had none for this machine. */
export function nodeFor(least: number | undefined): string | null {
  if (least === undefined || Number(process.versions.node.split('.')[0]) >= least) return process.execPath;
  const path = `node_modules/node-${least}-${process.platform}-${process.arch}/bin/node`;
  const binary = fileURLToPath(new URL(path, import.meta.url));
  return existsSync(binary) ? binary : null;
}
