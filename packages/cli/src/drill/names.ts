/** Of the proofs, for the help, which loads nothing else. The first six are those that `proofs.ts` begins with. */
export const PROOF_NAMES: readonly string[] = [
  ...['kill', 'pause', 'partition', 'clock', 'release', 'takeover'],
  ...['data-loss', 'blocked', 'late-packet'],
];
