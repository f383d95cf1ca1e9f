#!/usr/bin/env node
import { processIo } from './output/io.ts';
import { main } from './program.ts';

let isCut = false;
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  // `leasehold ls | head`: whoever read has what it wanted.
  if (error.code === 'EPIPE' || isCut) return;
  isCut = true;
  process.stderr.write(`leasehold: the output cannot be written: ${error.message}\n`);
});

const code = await main(process.argv.slice(2), processIo());

// What is on its way into a pipe comes first. Then nothing is waited for: the handlers that `validate` has imported may
// have opened whatever they like.
await Promise.all(
  [process.stdout, process.stderr].map((stream) => new Promise((resolve) => stream.write('', resolve))),
);
process.exit(code === 0 && isCut ? 1 : code);
