// Installs the pinned dependencies, unless they are there.
import { command } from './lib/foreground.mjs';
import { prepare } from './lib/prepare.mjs';
import { step } from './lib/steps.mjs';

await command(async () => {
  await prepare(step);
  return 0;
});
