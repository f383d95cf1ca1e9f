import { execFile } from 'node:child_process';
import { cpSync, mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';

import { root } from '../../scripts/lib/prepare.mjs';
import { guardedFolder, removeFolder } from '../../scripts/services/guard.mjs';

// The rules of .oxlintrc.json, tried on a repository that breaks each of them.

const layer = 'eslint(no-restricted-imports)';

/** File, its text, and the rule that must refuse it (null: none). */
const cases: readonly (readonly [file: string, text: string, rule: string | null])[] = [
  ['packages/core/src/bad-1.ts', `import { Redis } from 'ioredis';\nexport const a = Redis;`, layer],
  ['packages/core/src/bad-2.ts', `import { test } from 'vitest';\nexport const a = test;`, layer],
  ['packages/core/src/bad-3.ts', `import type { Job } from 'bullmq';\nexport type A = Job;`, layer],
  ['packages/core/src/bad-4.ts', `import cron from 'node-cron';\nexport const a = cron;`, layer],
  ['packages/core/src/bad-5.ts', `import { b } from '../../bullmq-adapter/src/fine.ts';\nexport const a = b;`, layer],
  ['packages/core/src/bad-6.ts', `export { b } from '@leasehold/core';`, layer],
  ['packages/core/src/lease/bad-1.ts', `export { b } from '../redis/fine.ts';`, layer],
  ['packages/core/src/lease/bad-2.ts', `export { b } from '../testing/fine.ts';`, layer],
  ['packages/core/src/lease/bad-3.ts', `export { b } from '../store/memory.ts';`, layer],
  ['packages/core/src/lease/bad-4.ts', `export { b } from '../fence/memory.ts';`, layer],
  ['packages/core/src/lease/bad-5.ts', `import { Redis } from 'ioredis';\nexport const a = Redis;`, layer],
  ['packages/core/src/lease/bad-6.ts', `import type { Job } from 'bullmq';\nexport type A = Job;`, layer],
  ['packages/core/src/lease/fine.ts', `export { b } from '../store/fine.ts';`, null],
  ['packages/core/src/store/bad-1.ts', `export { b } from '../lease/fine.ts';`, layer],
  ['packages/core/src/store/bad-2.ts', `export { b } from '../redis/fine.ts';`, layer],
  ['packages/core/src/store/fine.ts', `export const b = 1;`, null],
  ['packages/core/src/store/memory.ts', `export { b } from './fine.ts';`, null],
  ['packages/core/src/fence/bad-1.ts', `export { b } from '../lease/fine.ts';`, layer],
  ['packages/core/src/fence/bad-2.ts', `export { b } from '../redis/fine.ts';`, layer],
  ['packages/core/src/fence/memory.ts', `export const b = 1;`, null],
  ['packages/core/src/redis/bad-1.ts', `export { b } from '../lease/fine.ts';`, layer],
  ['packages/core/src/redis/scripts/bad-2.ts', `export { b } from '../../lease/fine.ts';`, layer],
  ['packages/core/src/redis/fine.ts', `import { Redis } from 'ioredis';\nexport const b = Redis;`, null],
  ['packages/core/src/postgres/bad-1.ts', `export { b } from '../redis/fine.ts';`, layer],
  ['packages/core/src/postgres/fine.ts', `import pg from 'pg';\nexport const b = pg;`, null],
  ['packages/core/src/http/bad-1.ts', `export { b } from '../postgres/fine.ts';`, layer],
  ['packages/core/src/http/fine.ts', `export { b } from '../fence/fine.ts';`, null],
  ['packages/core/src/conditional/bad-1.ts', `export { b } from '../http/fine.ts';`, layer],
  ['packages/core/src/conditional/bad-2.ts', `export { b } from '../lease/fine.ts';`, layer],
  ['packages/core/src/conditional/fine.ts', `export { b } from '../fence/fine.ts';`, null],
  ['packages/core/src/fence/fine.ts', `export const b = 1;`, null],
  ['packages/core/src/testing/fine.ts', `import { test } from 'vitest';\nexport const b = test;`, null],
  ['packages/bullmq-adapter/src/bad-1.ts', `import cron from 'node-cron';\nexport const a = cron;`, layer],
  ['packages/bullmq-adapter/src/bad-2.ts', `export { b } from '../../core/src/store/fine.ts';`, layer],
  ['packages/bullmq-adapter/src/bad-3.ts', `export { b } from '@leasehold/cron';`, layer],
  ['packages/bullmq-adapter/src/fine.ts', `import { Worker } from 'bullmq';\nexport const b = Worker;`, null],
  ['packages/bullmq-adapter/src/fine-2.ts', `export { b } from '@leasehold/core';`, null],
  ['packages/cron-adapter/src/bad-1.ts', `import { Worker } from 'bullmq';\nexport const a = Worker;`, layer],
  ['packages/cron-adapter/src/bad-2.ts', `import { Redis } from 'ioredis';\nexport const a = Redis;`, layer],
  ['packages/cron-adapter/src/fine.ts', `import cron from 'node-cron';\nexport const b = cron;`, null],
  ['packages/cli/src/bad-1.ts', `import cron from 'node-cron';\nexport const a = cron;`, layer],
  ['packages/cli/src/config/bad-1.ts', `import { Worker } from 'bullmq';\nexport const a = Worker;`, layer],
  ['packages/cli/src/config/bad-2.ts', `export { b } from '../run/fine.ts';`, layer],
  ['packages/cli/src/run/fine.ts', `import { Worker } from 'bullmq';\nexport const b = Worker;`, null],
  [
    'packages/core/src/circle-a.ts',
    `import { b } from './circle-b.ts';\nexport const a = () => b;`,
    'import(no-cycle)',
  ],
  [
    'packages/core/src/circle-b.ts',
    `import { a } from './circle-a.ts';\nexport const b = () => a;`,
    'import(no-cycle)',
  ],
  [
    'packages/core/src/floating.ts',
    `const work = async () => {};\nexport const a = () => {\n  work();\n};`,
    'typescript(no-floating-promises)',
  ],
  [
    'packages/core/src/timer.ts',
    `export const a = () => setInterval(async () => {}, 1);`,
    'typescript(no-misused-promises)',
  ],
  [
    'packages/core/src/switch.ts',
    `export function a(x: 'p' | 'q') {\n  switch (x) {\n    case 'p':\n      return 1;\n  }\n  return 2;\n}`,
    'typescript(switch-exhaustiveness-check)',
  ],
];

let repository: string;
let found: { code: string; filename: string }[];

beforeAll(async () => {
  repository = guardedFolder('layers');
  cpSync(join(root, '.oxlintrc.json'), join(repository, '.oxlintrc.json'));
  cpSync(join(root, 'tsconfig.base.json'), join(repository, 'tsconfig.json'));
  mkdirSync(join(repository, 'node_modules'));
  symlinkSync(join(root, 'test/node_modules/@types'), join(repository, 'node_modules/@types'));
  for (const [file, text] of cases) {
    mkdirSync(dirname(join(repository, file)), { recursive: true });
    writeFileSync(join(repository, file), `${text}\n`);
  }
  const oxlint = join(root, 'node_modules/.bin/oxlint');
  const output = await new Promise<string>((resolve) => {
    execFile(oxlint, ['--type-aware', '--format=json'], { cwd: repository, maxBuffer: 2 ** 26 }, (_, stdout) =>
      resolve(stdout),
    );
  });
  found = (JSON.parse(output) as { diagnostics: { code: string; filename: string }[] }).diagnostics;
});

afterAll(() => removeFolder(repository));

for (const [file, text, rule] of cases) {
  const imported = /from '([^']+)'/.exec(text)?.[1];
  test(`${rule ?? 'nothing'} for ${file}${imported === undefined ? '' : ` importing ${imported}`}`, () => {
    const codes = found.filter(({ filename }) => filename.endsWith(file)).map(({ code }) => code);
    expect(codes.filter((code) => rule === null || code === rule).slice(0, 1)).toEqual(rule === null ? [] : [rule]);
  });
}
