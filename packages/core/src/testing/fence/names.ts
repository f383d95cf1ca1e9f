import { expect } from 'vitest';

import type { Grant } from '../../fence/fence.ts';
import { newLeaseId, unique } from '../unique.ts';
import type { FenceCase, FenceContext } from './context.ts';

/** Any two of these that meet would refuse the one that comes second. */
async function mustBeApart(context: FenceContext<unknown>, resources: readonly string[]): Promise<void> {
  const grants: Grant[] = [];
  for (const resource of resources) grants.push(await context.grant({ resource }));
  // The latest first.
  for (const grant of grants.toReversed()) await context.append(grant, grant.resource);
  for (const { resource, fencingToken, leaseId } of grants) {
    expect(await context.fence.highest(resource)).toEqual({ fencingToken, leaseId });
    expect(await context.entries(resource)).toEqual([resource]);
  }
}

/** As long as a name may be: 256 bytes, of which the last are `end`. */
function longest(stem: string, end: string): string {
  const left = 256 - new TextEncoder().encode(stem + end).length;
  return stem + '🦊'.repeat(left / 4) + '-'.repeat(left % 4) + end;
}

// Two that a database, a file system or a careless comparison could take for one.
const ALIKE: readonly (readonly [string, string])[] = [
  ...([
    ['a', 'A'],
    ['a', ' a'],
    ['a', 'a '],
    ['é', 'e\u0301'],
    ['ß', 'ss'],
    ['i', 'İ'],
  ] as const),
  ...([
    ["'", "''"],
    ['\\', '\\\\'],
    ['$1', '?'],
    ['"', '%22'],
    ['%', '*'],
    ['🦊', '🦋'],
  ] as const),
  ['x'.repeat(200), `${'x'.repeat(199)}y`],
];

/** Names and leaseIds are compared byte by byte, and none is taken for anything but a name. */
export const nameCases: readonly FenceCase[] = [
  {
    name: 'each resource has a fence of its own, however alike the names',
    needs: [],
    run(context) {
      const alike = ['a', 'A', 'a ', ' a', '{a}', '%7Ba%7D', 'a%', 'a:b', 'a/b', 'é', 'e\u0301', '🦊'];
      const quoted = ["'", '"', '\\', '$1', '*'];
      const stem = unique('x');
      return mustBeApart(
        context,
        [...alike, ...quoted].map((name) => `suite/${stem}/${name}`),
      );
    },
  },
  {
    name: 'the namespaces are kept apart: one resource in two of them has two fences',
    needs: [],
    run(context) {
      const stem = unique('x');
      const namespaces = ['suite', 'suite-2', 'Suite', 'suite/suite-2', 'suite-2/suite', 'suite/suite'];
      return mustBeApart(
        context,
        namespaces.map((namespace) => `${namespace}/${stem}`),
      );
    },
  },
  {
    name: 'names as long and as strange as they may be are names and nothing else',
    needs: [],
    run(context) {
      const paths = [
        'x',
        'a/../x',
        './x',
        '/x',
        'x/',
        '../x',
        '../../x',
        '.',
        '..',
        '~',
        'x.lock',
        'x?',
        'x#',
        '%2e%2e%2fx',
      ];
      const code = [
        "'; DROP TABLE fence; --",
        '${x}',
        '$(x)',
        '`x`',
        "redis.call('FLUSHALL')",
        '__proto__',
        ':x',
        'x\\',
      ];
      const unicode = ['\u00a0', '\u200b', '\u202e', '\ufeff', 'ﬁ', 'fi', 'ß', 'ss', 'İ', 'i', 'İ'.toLowerCase()];
      const stem = unique('x');
      const short = [...paths, ...code, ...unicode].map((name) => `${stem}/${name}`);
      const long = ['', 'x', 'y', 'é'].map((end) => longest(stem, end));
      return mustBeApart(
        context,
        [...short, ...long].map((name) => `suite/${name}`),
      );
    },
  },
  {
    name: 'leaseIds are compared byte by byte, whatever is in them',
    needs: [],
    async run(context) {
      const { fencingToken } = await context.grant();
      for (const [index, pair] of ALIKE.entries()) {
        const own = context.of(`${context.resource}/${index}`);
        const stem = newLeaseId();
        const [one, other] = pair.map((end) => ({ resource: own.resource, fencingToken, leaseId: stem + end }));
        if (one === undefined || other === undefined) throw new Error('a pair has two');
        await own.append(one, 'one');
        expect(await own.fence.highest(own.resource)).toEqual({ fencingToken, leaseId: one.leaseId });
        await own.stale(own.append(other, 'other'), one);
        await own.append(one, 'one again');
        expect(await own.entries()).toEqual(['one', 'one again']);
      }
    },
  },
];
