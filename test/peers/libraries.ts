import type { LockLibrary } from './adapters/library.ts';
import { redisSemaphoreLibrary } from './adapters/redis-semaphore.ts';
import { redlock4Library } from './adapters/redlock-4.ts';
import { redlock5Library } from './adapters/redlock-5.ts';
import { redlockUniversalLibrary } from './adapters/redlock-universal.ts';
import { sesamecareLibrary } from './adapters/sesamecare.ts';

/** The lock libraries among the peers. */
export const libraries: readonly LockLibrary[] = [
  redlock4Library,
  redlock5Library,
  sesamecareLibrary,
  redlockUniversalLibrary,
  redisSemaphoreLibrary,
];

export function libraryNamed(name: string): LockLibrary {
  const library = libraries.find((each) => each.name === name);
  if (library === undefined) throw new Error(`there is no library ${name}`);
  return library;
}

/** Why it cannot run in this process; null if it can. */
export function unfit({ needsNode }: LockLibrary): string | null {
  return needsNode === undefined || Number(process.versions.node.split('.')[0]) >= needsNode
    ? null
    : `it asks for Node ${needsNode}, and this is ${process.version}`;
}
