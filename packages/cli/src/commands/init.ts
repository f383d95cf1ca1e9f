import { existsSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { Command } from 'commander';
import { CliError, EXIT } from '../exit.ts';
import { makeFolder } from '../folder.ts';
import { outputOf, type Session } from './session.ts';

/** An ES module whatever the package.json of the folder says. */
const JOB_FILE = 'jobs/hello.mjs';

const CONFIG = `# yaml-language-server: $schema=./node_modules/leasehold/schema.json
version: 1
store:
  redis: \${REDIS_URL:-redis://127.0.0.1:6379}
jobs:
  hello:
    cron: '* * * * *' # each minute, in one of the processes that run this file
    timezone: UTC
    handler: ./${JOB_FILE}
`;

const JOB = `/**
 * Called once for each tick, with { job, run, lease, signal, fences, log }. \`run.tick\` is the minute that it is for;
 * \`signal\` aborts when the run is to end: then finish up and return. What it throws fails the run. The handler of a
 * queue is called in the same way, once for each job of the queue, and finds what the producer gave in \`job.data\`.
 */
export default async function hello({ run, lease, log }) {
  lease.assertHeld();
  log.info({ tick: run.tick }, 'hello, once a minute');
}
`;

const OTHER_FOLDER = 'leasehold init <another folder>';

const FILES: Readonly<Record<string, string>> = { 'leasehold.yaml': CONFIG, [JOB_FILE]: JOB };

export function addInit(program: Command, session: Session): Command {
  return program
    .command('init')
    .summary('write a starter config and a job')
    .description(`Writes ${Object.keys(FILES).join(' and ')}. Overwrites nothing: exit 2 if one of them is there.`)
    .argument('[folder]', 'where to', '.')
    .action(async (folder: string, _flags: object, command: Command) => {
      const output = outputOf(session, command);
      const files = Object.entries(FILES).map(([name, text]) => ({ path: join(folder, name), text }));
      const there = files.find(({ path }) => existsSync(path));
      if (there !== undefined) throw isThere(there.path);
      for (const { path } of files) await makeFolderOf(path);
      for (const { path, text } of files) {
        await writeNew(path, text);
        if (!output.isJson) output.line(path);
      }
      if (output.isJson) output.json('files', { files: files.map(({ path }) => path) });
      output.note('Next: leasehold validate');
    });
}

/** All of them before the first file, so that nothing is half done. */
async function makeFolderOf(file: string): Promise<void> {
  const path = dirname(file);
  try {
    await makeFolder(path);
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    const isFile = code === 'EEXIST' || code === 'ENOTDIR';
    const why = isFile ? 'a file is in its place' : message;
    throw new CliError(EXIT.usage, `the folder ${path} cannot be made: ${why}; nothing was written`, OTHER_FOLDER);
  }
}

/** Overwrites nothing, also not what has come since it was looked for. */
async function writeNew(path: string, text: string): Promise<void> {
  try {
    await writeFile(path, text, { flag: 'wx' });
  } catch (error) {
    throw (error as NodeJS.ErrnoException).code === 'EEXIST' ? isThere(path) : error;
  }
}

function isThere(path: string): CliError {
  return new CliError(EXIT.usage, `${path} is there already; nothing was overwritten`, OTHER_FOLDER);
}
