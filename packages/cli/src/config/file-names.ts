/** The names of config files that are looked for, in this order. */
export const CONFIG_FILES = [
  'leasehold.yaml',
  'leasehold.yml',
  'leasehold.json',
  'leasehold.config.ts',
  'leasehold.config.js',
  'leasehold.config.mjs',
] as const;
