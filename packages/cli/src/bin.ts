#!/usr/bin/env node
import { failureJson } from './output/failure.ts';
import { processIo } from './output/io.ts';
import { main, wantsJson } from './program.ts';
import { EXIT } from './exit.ts';

const argv = process.argv.slice(2);
const cut = new AbortController();
let isFull = false;
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  cut.abort();
  // `leasehold ls | head`: whoever read has what it wanted.
  if (error.code === 'EPIPE' || isFull) return;
  isFull = true;
  const line = `leasehold: the output cannot be written: ${error.message}`;
  const failure = { exit: EXIT.unexpected, code: error.code ?? 'UNEXPECTED', lines: [line] };
  process.stderr.write(`${wantsJson(argv) ? failureJson(failure) : line}\n`);
});
// There is nowhere left to say it, and `leasehold run` works whether anybody listens or not.
process.stderr.on('error', () => {});

const code = await main(argv, processIo(cut.signal));

// What is on its way into a pipe comes first. Then nothing is waited for: the handlers that `validate` has imported may
// have opened whatever they like.
await Promise.all(
  [process.stdout, process.stderr].map((stream) => new Promise((resolve) => stream.write('', resolve))),
);
process.exit(code === EXIT.done && isFull ? EXIT.unexpected : code);
