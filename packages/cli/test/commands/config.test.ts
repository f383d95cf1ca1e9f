import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { call } from './call.ts';

let folder: string;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'leasehold-cli-'));
});

afterEach(() => rm(folder, { recursive: true, force: true }));

test('what init writes is valid, and has next ticks', async () => {
  const init = await call(['init', folder]);
  expect(init).toMatchObject({
    code: 0,
    stdout: `${join(folder, 'leasehold.yaml')}\n${join(folder, 'jobs/hello.mjs')}\n`,
  });
  const file = join(folder, 'leasehold.yaml');
  const { code, stdout, stderr } = await call(['validate', file, '--next', '2']);
  expect({ code, stderr }).toEqual({ code: 0, stderr: `${file}: valid, 1 job, 0 warnings\n` });
  const [head, ...ticks] = stdout.trimEnd().split('\n');
  expect(head).toBe('JOB\tSCHEDULE\tZONE\tNEXT');
  expect(ticks.map((line) => line.replace(/\d{4}-.*$/, ''))).toEqual(Array(2).fill('hello\t* * * * *\tUTC\t'));
});

test.each(['leasehold.yaml', 'jobs/hello.mjs'])(
  'init overwrites no %s, and then writes nothing at all',
  async (mine) => {
    await mkdir(join(folder, 'jobs'));
    await writeFile(join(folder, mine), 'mine');
    const { code, stdout, stderr } = await call(['init', folder]);
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
    expect(stderr).toContain(`${join(folder, mine)} is there already`);
    expect(await readFile(join(folder, mine), 'utf8')).toBe('mine');
    expect((await readdir(folder, { recursive: true })).toSorted()).toEqual(['jobs', mine].toSorted());
  },
);

test('init says which folder cannot be made, and then writes nothing at all', async () => {
  await writeFile(join(folder, 'jobs'), 'a file');
  const { code, stdout, stderr } = await call(['init', folder]);
  expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
  expect(stderr).toContain(`the folder ${join(folder, 'jobs')} cannot be made: a file is in its place`);
  expect(await readdir(folder)).toEqual(['jobs']);
});

test('init ends where no folder can be made, in a file system that is none', async () => {
  const { code, stderr } = await call(['init', '/proc/leasehold/new']);
  expect(code).toBe(2);
  expect(stderr).toContain('the folder /proc/leasehold/new cannot be made: ');
});

test('init makes the folders above its own', async () => {
  const { code } = await call(['init', join(folder, 'a/b'), '-q']);
  expect(code).toBe(0);
  expect((await readdir(join(folder, 'a/b'), { recursive: true })).toSorted()).toEqual([
    'jobs',
    'jobs/hello.mjs',
    'leasehold.yaml',
  ]);
});

test('init and schema have a JSON form', async () => {
  const init = await call(['init', folder, '--json', '-q']);
  expect(JSON.parse(init.stdout)).toEqual({
    schema: 'leasehold/files/v1',
    files: [join(folder, 'leasehold.yaml'), join(folder, 'jobs/hello.mjs')],
  });
  expect((await call(['schema', '--json'])).stdout).toBe((await call(['schema'])).stdout);
});

test('with --json all that is wrong with a config is in the one object', async () => {
  const file = join(folder, 'broken.yaml');
  await writeFile(file, BROKEN);
  for (const args of [
    ['ls', '--config', file],
    ['run', file],
    ['trigger', 'a', file],
  ]) {
    const { code, stderr } = await call([...args, '--json']);
    expect(code).toBe(2);
    const { code: its, details } = JSON.parse(stderr) as { readonly code: string; readonly details: string[] };
    expect(its).toBe('CONFIG');
    // Who runs the jobs is told of their code, too.
    const places = details.map((line) => /:(\d+:\d+) /.exec(line)?.[1]);
    expect(places).toEqual(args[0] === 'run' ? ['4:36', '4:58', '4:71', '5:14', '5:37'] : ['4:58', '4:71', '5:14']);
  }
});

test('the long name of a job is cut on a terminal, and whole in a pipe and in JSON', async () => {
  const file = join(folder, 'long.yaml');
  const job = 'a-name-'.repeat(18).slice(0, -1);
  await writeFile(join(folder, 'a.mjs'), 'export default () => {};');
  const text = `version: 1\nstore: { redis: redis://h }\njobs:\n  ${job}: { cron: '0 3 * * *', timezone: UTC, handler: ./a.mjs }\n`;
  await writeFile(file, text);
  for (const args of [
    ['validate', file],
    ['run', file, '--dry-run'],
  ]) {
    const { stdout } = await call([...args, '--no-color'], { columns: 80 });
    expect(stdout).toContain('…');
    for (const line of stdout.split('\n')) expect(line.length).toBeLessThanOrEqual(80);
    expect((await call(args)).stdout).toContain(`\n${job}\t`);
    expect((await call([...args, '--json'])).stdout).toContain(`"${job}"`);
  }
});

test('--no-color is heard before the command and after it', async () => {
  await call(['init', folder]);
  const args = ['validate', join(folder, 'leasehold.yaml')];
  const shown = await Promise.all(
    [args, ['--no-color', ...args], [...args, '--no-color']].map((line) => call(line, { columns: 80 })),
  );
  expect(shown.map(({ stdout }) => stdout.includes('\u001B['))).toEqual([true, false, false]);
});

const BROKEN = `version: 1
store: { redis: redis://h }
jobs:
  a: { cron: '* * * * *', handler: ./a.js, lease: { ttl: 30, fences: [ledger] } }
  b: { cron: '61 * * * *', handler: ./b.js }
`;

test('validate prints every problem with its place, and ends with 2', async () => {
  const file = join(folder, 'broken.yaml');
  await writeFile(file, BROKEN);
  const { code, stdout, stderr } = await call(['validate', file]);
  expect(code).toBe(2);
  // What is wrong with the code and the fences of a job does not wait until its times are right.
  expect(stdout.replaceAll(`error: ${file}:`, '').replaceAll(/: .*$/gm, '')).toBe(
    '4:36 jobs.a.handler\n4:58 jobs.a.lease.ttl\n4:71 jobs.a.lease.fences[0]\n5:14 jobs.b.cron\n5:37 jobs.b.handler\n',
  );
  expect(stderr).toBe(`${file}: 5 problems; nothing would run\n`);
  const json = await call(['validate', file, '--json']);
  expect(json.code).toBe(2);
  expect(JSON.parse(json.stdout)).toMatchObject({
    schema: 'leasehold/validation/v1',
    valid: false,
    problems: [{ line: 4 }, { line: 4 }, { line: 4 }, { line: 5 }, { line: 5 }],
  });
});

test('validate says that a handler does not exist, and tells warnings of a config that can run', async () => {
  await call(['init', folder]);
  const file = join(folder, 'leasehold.yaml');
  await rm(join(folder, 'jobs/hello.mjs'));
  expect(await call(['validate', file])).toMatchObject({
    code: 2,
    stdout: expect.stringContaining(`error: ${file}:9:`),
  });
  await writeFile(join(folder, 'a.mjs'), 'export default () => {};');
  await writeFile(
    file,
    `version: 1\nstore: { redis: redis://h }\njobs:\n  a: { cron: '30 2 * * *', timezone: Europe/Berlin, handler: ./a.mjs }\n`,
  );
  expect(await call(['validate', file])).toMatchObject({
    code: 0,
    stdout: expect.stringContaining(`warning: ${file}:4:`),
  });
});

test('a command that takes its store from a broken config prints all that is wrong with it', async () => {
  const file = join(folder, 'broken.yaml');
  await writeFile(file, BROKEN);
  const { code, stdout, stderr } = await call(['ls', '--config', file]);
  expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
  expect(stderr).toContain(`${file}:4:`);
  expect(stderr).toContain(`${file}:5:`);
});

test('schema prints what the package has as schema.json', async () => {
  const published = await readFile(new URL('../../schema.json', import.meta.url), 'utf8');
  const { code, stdout } = await call(['schema']);
  expect(code).toBe(0);
  expect(JSON.parse(stdout)).toEqual(JSON.parse(published));
});

describe('without the name of a file', () => {
  const home = process.cwd();
  beforeEach(() => process.chdir(folder));
  afterEach(() => process.chdir(home));

  test('what is said names the config of the folder', async () => {
    await writeFile('leasehold.yaml', BROKEN);
    const validate = await call(['validate']);
    expect(validate).toMatchObject({ code: 2, stderr: 'leasehold.yaml: 5 problems; nothing would run\n' });
    expect((await call(['run'])).stderr).toContain('nothing runs\nTry: leasehold validate leasehold.yaml\n');
  });

  test('a folder without a config is told of, with the names that are looked for', async () => {
    const said =
      /^error: this folder has no config \(none of leasehold\.yaml, .*leasehold\.config\.mjs\); .*leasehold init$/m;
    const validate = await call(['validate']);
    expect(validate).toMatchObject({ code: 2, stdout: expect.stringMatching(said) });
    expect(validate.stderr).toBe('1 problem; nothing would run\n');
    expect(JSON.parse((await call(['validate', '--json'])).stdout)).toMatchObject({ valid: false, file: '.' });
    const run = await call(['run']);
    expect(run).toMatchObject({ code: 2, stderr: expect.stringMatching(said) });
    // There is nothing that validate could say more of.
    expect(run.stderr).not.toContain('Try:');
  });

  test('a command that cannot use the config of the folder says how it is typed without', async () => {
    await writeFile('leasehold.yaml', BROKEN);
    const { stderr } = await call(['show', 'customer:42']);
    expect(stderr).toContain('Try: leasehold show customer:42 --url redis://<host>:<port>\n');
  });
});

test.each([
  ['validate', 'redis://app:secret@cache:6379'],
  ['run', 'redis://app:secret@cache:6379'],
  ['trigger', 'job', 'redis://app:secret@cache:6379'],
  ['ls', '--config', 'redis://app:secret@cache:6379'],
])('%s, given an address where a file is meant, does not show its password', async (...args) => {
  for (const json of [[], ['--json']]) {
    const { code, stdout, stderr } = await call([...args, ...json]);
    expect(code).toBe(2);
    expect(stdout).toBe('');
    expect(stderr).toContain('file: is an address, not shown');
    expect(stderr).not.toContain('secret');
  }
});
