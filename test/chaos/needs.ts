import { spawnSync } from 'node:child_process';

import { find } from '../../scripts/services/binaries.mjs';
import { thisMachine } from '../../scripts/services/machine.mjs';
import { freezers } from '../support/freezer.ts';
import type { Need } from './nemesis.ts';

const known = new Map<Need, string | null>();

/** Why this machine does not permit it, or null if it does. */
export function missing(need: Need): string | null {
  const before = known.get(need);
  if (before !== undefined) return before;
  const why = whyNot(need);
  known.set(need, why);
  return why;
}

function whyNot(need: Need): string | null {
  switch (need) {
    case 'owner-clock':
    case 'store-clock':
      return find('faketime', thisMachine).path === null ? 'no libfaketime' : null;
    case 'freezer':
      return freezers().length === 0 ? 'no cgroup that may be frozen' : null;
    case 'networks':
      return mayLink() ? null : 'no right to make networks, or no tool for it';
    case 'replica':
    case 'aof':
    case 'own-postgres':
      return null;
  }
}

function mayLink(): boolean {
  const link = ['--net', 'ip', 'link', 'add', 'near', 'type', 'veth', 'peer', 'name', 'far'];
  return process.getuid?.() === 0 && spawnSync('unshare', link).status === 0;
}
