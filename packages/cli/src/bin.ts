#!/usr/bin/env node
import { processIo } from './output/io.ts';
import { main } from './program.ts';

// `leasehold ls | head`: whoever read has what it wanted.
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code !== 'EPIPE') throw error;
});

const code = await main(process.argv.slice(2), processIo());

// What is on its way into a pipe comes first. Then nothing is waited for: the handlers that `validate` has imported may
// have opened whatever they like.
await Promise.all(
  [process.stdout, process.stderr].map((stream) => new Promise((resolve) => stream.write('', resolve))),
);
process.exit(code);
