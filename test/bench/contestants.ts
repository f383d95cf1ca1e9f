import { libraries, unfit } from '../peers/libraries.ts';
import type { LockLibrary } from '../peers/adapters/library.ts';
import type { Context, HostOptions, SideName } from './benchmark.ts';
import type { Hosted } from './host.ts';
import type { Contestant } from './interleave.ts';

export interface HostedContestant extends Contestant {
  readonly hosted: Hosted;
}

/** Whose versions belong to what they are compared in. */
export const lockPackages: readonly string[] = libraries.map(({ dependency }) => dependency);

/** Lock libraries that can be measured here. The others are told to the reader. */
export function fitLibraries(
  context: Context,
  wanted: (library: LockLibrary) => string | null = () => null,
): readonly LockLibrary[] {
  return libraries.filter((library) => {
    const why = wanted(library) ?? unfit(library);
    if (why !== null && !context.leftOut.some(({ name }) => name === library.name))
      context.leftOut.push({ name: library.name, why });
    return why === null;
  });
}

/** Each in a process of its own, one after the other: to start them together would be no faster on few cores. */
export async function hostAll<S extends object>(
  context: Context,
  side: SideName,
  all: readonly (Contestant & { readonly setup: S })[],
  options?: HostOptions,
): Promise<readonly HostedContestant[]> {
  const hosted: HostedContestant[] = [];
  for (const { name, kind, setup } of all)
    hosted.push({ name, kind, hosted: await context.host(side, setup, options) });
  return hosted;
}
