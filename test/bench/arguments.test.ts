import { expect, test } from 'vitest';

import { find } from '../../scripts/services/binaries.mjs';
import { thisMachine } from '../../scripts/services/machine.mjs';
import { argumentsOf } from './arguments.ts';
import { versions } from './machine.ts';

const of = (text: string) => argumentsOf(text.split(' ').filter((word) => word !== ''));

test('a quick run is kept if it is said, a full one always', () => {
  expect(of('')).toEqual({ names: [], size: 'full', isKept: true, page: false });
  expect(of('run scale --quick')).toEqual({ names: ['run', 'scale'], size: 'quick', isKept: false, page: false });
  expect(of('--quick --keep')).toMatchObject({ size: 'quick', isKept: true });
  expect(of('--help')).toBeNull();
});

test.each([
  ['nosuch', /^no benchmark is called nosuch; there are acquire-release, /],
  ['--page --quick', '--page measures nothing: it stands alone'],
  ['--pages', /^Unknown option '--pages'/],
])('%s is refused', (text, why) => {
  expect(() => of(text)).toThrow(why);
});

test('the client that has the name of the server does not pass for it', () => {
  const { path } = find('redis', thisMachine);
  const its = versions(['redis'], { redis: path! });
  expect(Object.keys(its)).toEqual(['node', 'redis', 'ioredis', 'node-redis']);
  expect(its['redis']).toBe(versions([], { redis: path! })['redis']);
});
