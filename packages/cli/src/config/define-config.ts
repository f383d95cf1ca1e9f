import type { LeaseholdConfig } from './written.ts';

/** Gives the config back: for modules, whose editors then complete and check it. */
export function defineConfig(config: LeaseholdConfig): LeaseholdConfig {
  return config;
}
