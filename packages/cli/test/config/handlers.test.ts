import { createRequire } from 'node:module';
import { expect, test, vi } from 'vitest';

import { faultOf } from '../../src/config/module.ts';
import { formatProblems, loadConfig, resolveHandlers } from '../../src/index.ts';
import { folderOf, problemsOf } from './support.ts';

const head = "version: 1\nstore: { redis: 'redis://h' }\njobs:\n";
const code = {
  'pay.mjs': 'export const charge = () => 1;\nexport default () => 2;\nexport const rate = 5;\n',
  'types.ts': 'export default (amount: number): number => amount;\n',
  'none.mjs': 'export {};\n',
  'throws.mjs': "throw new Error('no key for hunter2');\n",
};

function jobs(...handlers: readonly string[]): string {
  return head + handlers.map((handler, index) => `  j${index}: { every: 5m, handler: '${handler}' }\n`).join('');
}

test('handlers come from the files that the config names, by its folder', async () => {
  await using folder = await folderOf({ ...code, 'a.yaml': jobs('./pay.mjs#charge', './pay.mjs', './types.ts') });
  const handlers = await resolveHandlers(await loadConfig(folder.file('a.yaml')));
  expect([...handlers.keys()]).toEqual(['j0', 'j1', 'j2']);
  expect([...handlers.values()].map((handler) => (handler as (amount: number) => unknown)(3))).toEqual([1, 2, 3]);
});

test('what cannot be a handler is told of with its line, all at once', async () => {
  const text = jobs(
    './pay.mjs#chrage',
    './pay.mjs#rate',
    './none.mjs',
    './none.mjs#a',
    './throws.mjs',
    './gone.mjs',
    './pay.mjs#toString',
  );
  await using folder = await folderOf({ ...code, 'a.yaml': text });
  const config = await loadConfig(folder.file('a.yaml'));
  const said = formatProblems(await problemsOf(() => resolveHandlers(config)));
  expect(said.replaceAll(`${folder.path}/`, '').replace(/(cannot be imported: ).*gone.*/, '$1…')).toBe(
    `a.yaml:4:29 jobs.j0.handler: './pay.mjs' does not export 'chrage'; did you mean #charge?
a.yaml:5:29 jobs.j1.handler: './pay.mjs' exports 'rate', which is no function
a.yaml:6:29 jobs.j2.handler: './none.mjs' does not export a default; it exports no function
a.yaml:7:29 jobs.j3.handler: './none.mjs' does not export 'a'; it exports no function
a.yaml:8:29 jobs.j4.handler: './throws.mjs' cannot be imported: no key for hunter2
a.yaml:9:29 jobs.j5.handler: './gone.mjs' is not there
a.yaml:10:29 jobs.j6.handler: './pay.mjs' does not export 'toString'; there are charge, default
`,
  );
});

test('only the handlers of some jobs are imported if only those will run', async () => {
  await using folder = await folderOf({ ...code, 'a.yaml': jobs('./pay.mjs', './throws.mjs') });
  const config = await loadConfig(folder.file('a.yaml'));
  expect([...(await resolveHandlers(config, ['j0'])).keys()]).toEqual(['j0']);
});

test('a handler from the environment is not shown', async () => {
  await using folder = await folderOf({ ...code, 'a.yaml': jobs('./${FILE}.mjs', './${FILE}.mjs#hunter3') });
  for (const FILE of ['hunter2', 'none', 'throws']) {
    const config = await loadConfig(folder.file('a.yaml'), { env: { FILE } });
    const said = formatProblems(await problemsOf(() => resolveHandlers(config)));
    expect(said).toContain('the file from ./${FILE}.mjs');
    expect(said).not.toContain('hunter2');
  }
});

test('a file that does not finish loading is told of after 10 s, and the others are loaded', async () => {
  const never = 'await new Promise(() => {});\nexport default () => 1;\n';
  await using folder = await folderOf({ ...code, 'never.mjs': never, 'a.yaml': jobs('./never.mjs', './none.mjs') });
  const config = await loadConfig(folder.file('a.yaml'));
  const listeners = process.listenerCount('exit');
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  try {
    const said = problemsOf(() => resolveHandlers(config));
    while (vi.getTimerCount() === 0) await new Promise((resolve) => setImmediate(resolve));
    vi.advanceTimersByTime(9999);
    expect(vi.getTimerCount()).toBe(1);
    vi.advanceTimersByTime(1);
    expect((await said).map(({ path, message }) => `${path} ${message}`)).toEqual([
      "jobs.j0.handler './never.mjs' did not finish loading within 10 s",
      "jobs.j1.handler './none.mjs' does not export a default",
    ]);
    // Neither a timer nor a listener outlives the import.
    expect(vi.getTimerCount()).toBe(0);
    expect(process.listenerCount('exit')).toBe(listeners);
  } finally {
    vi.useRealTimers();
  }
});

test('Node that does not read TypeScript is told of, with what to do', () => {
  const unknown = Object.assign(new TypeError('Unknown file extension ".ts"'), { code: 'ERR_UNKNOWN_FILE_EXTENSION' });
  expect(faultOf(unknown, '/a/b.ts')).toEqual([
    `is TypeScript, which Node ${process.versions.node} does not read by itself`,
    'Node 22.18 or later reads it; or start Node with a loader: NODE_OPTIONS="--import tsx"',
  ]);
  expect(faultOf(unknown, '/a/b.js')[0]).toContain('cannot be imported');
  const enums = Object.assign(new SyntaxError('enum'), { code: 'ERR_UNSUPPORTED_TYPESCRIPT_SYNTAX' });
  expect(faultOf(enums, '/a/b.ts')[0]).toBe('has TypeScript that is more than types');
  expect(faultOf('no error', '/a/b.js')).toEqual(['cannot be imported: threw a string']);
});

test.each([
  ['export default () => 1;', 'a.js', 'a.mjs'],
  ["import { readFileSync } from 'node:fs';\nexport { readFileSync };", 'b.js', 'b.mjs'],
  ['module.exports = import.meta.url;', 'c.js', 'c.mjs'],
])('an ES module in a folder that npm init made is told of, with what to do: %s', async (text, name, better) => {
  await using folder = await folderOf({ [name]: text, 'package.json': '{ "type": "commonjs" }' });
  const file = folder.file(name);
  const fault = faultOf(nodeErrorOf(file), file);
  expect(fault).toEqual([
    `is written as an ES module, and ${folder.file('package.json')} says that .js files are CommonJS`,
    `write "type": "module" there, or name the file ${better}`,
  ]);
  // Another file of that kind, which the handler imports.
  const [message] = faultOf(nodeErrorOf(file), folder.file('main.mjs'));
  expect(message).toBe(`imports ${file}, which ${fault[0]}`);
});

test('an ES module that is named as CommonJS is told of, and a slip in a module is not taken for that', async () => {
  await using folder = await folderOf({
    'a.cjs': 'export default () => 1;',
    'b.js': 'const x = ;',
    'package.json': '{}',
  });
  expect(faultOf(nodeErrorOf(folder.file('a.cjs')), folder.file('a.cjs'))).toEqual([
    'is written as an ES module, and .cjs is for CommonJS',
    'name it a.mjs',
  ]);
  expect(faultOf(nodeErrorOf(folder.file('b.js')), folder.file('b.js'))).toEqual([
    "cannot be imported: Unexpected token ';'",
  ]);
  expect(faultOf(new SyntaxError("Unexpected token 'export'"), folder.file('b.js'))).toEqual([
    "cannot be imported: Unexpected token 'export'",
  ]);
});

/** What Node itself says of a file; `import()` in a test is not Node's. */
function nodeErrorOf(file: string): unknown {
  try {
    createRequire(import.meta.url)(file);
  } catch (error) {
    return error;
  }
  throw new Error(`${file} can be read`);
}
