import type { Nemesis } from '../nemesis.ts';
import { kill } from './kill.ts';

/** All that can go wrong. */
export const nemeses: readonly Nemesis[] = [kill];
