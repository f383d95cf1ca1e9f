import { expect, test } from 'vitest';

import { parseTemplate, type ResourceTemplate } from '../../src/config/template.ts';

function nameOf(text: string, data: unknown, job = {}): string {
  return (parseTemplate(text) as ResourceTemplate).resourceOf({ name: 'charge', id: '7', data, ...job });
}

test('a template names the resource by what the job carries', () => {
  expect(nameOf('customer:{data.customerId}', { customerId: 42 })).toBe('customer:42');
  expect(nameOf('{name}/{id}/{data.a.b_c}', { a: { b_c: 'x y é' } })).toBe('charge/7/x y é');
  expect(nameOf('all', null)).toBe('all');
  expect(parseTemplate('a:{data.b}{id}')).toMatchObject({ fields: ['data.b', 'id'] });
});

test('two values never make one name', () => {
  const names = [
    ['a', 'b:c'],
    ['a:b', 'c'],
    ['a%3Ab', 'c'],
    ['a%', '3Ab:c'],
    ['{a}', 'c'],
    ['%7Ba%7D', 'c'],
    ['a\n', 'c'],
    ['a%0A', 'c'],
    ['a\u2028', 'c'],
    ['a\u0085', 'c'],
  ].map(([x, y]) => nameOf('{data.x}:{data.y}', { x, y }));
  expect(new Set(names).size).toBe(names.length);
  expect(names[0]).toBe('a:b%3Ac');
  expect(names[8]).toBe('a%E2%80%A8:c');
});

const unusable: readonly (readonly [what: string, data: unknown, said: RegExp])[] = [
  ['missing', {}, /\{data\.x\} is missing in this job/],
  ['undefined', { x: undefined }, /is missing/],
  ['null', { x: null }, /is missing/],
  ['empty', { x: '' }, /is empty/],
  ['an object', { x: {} }, /is an object/],
  ['a list', { x: ['a'] }, /is a list/],
  ['true', { x: true }, /is a boolean/],
  ['half a number', { x: 1.5 }, /not whole, or too large/],
  ['too large a number', { x: 2 ** 53 }, /not whole, or too large/],
  ['no number', { x: Number.NaN }, /not whole, or too large/],
  ['a big integer', { x: 5n }, /is a bigint/],
  ['half a surrogate pair', { x: 'a\ud800' }, /surrogate/],
  ['too long', { x: 'a'.repeat(300) }, /256 bytes/],
  ['in no data', undefined, /is missing/],
  ['in a text', 'x', /is missing/],
  ['inherited', Object.create({ x: 'a' }), /is missing/],
];

test.each(unusable)('a field that is %s fails the job, and names no resource', (_, data, said) => {
  expect(() => nameOf('customer:{data.x}', data)).toThrow(said);
});

test('only what the job itself carries counts', () => {
  expect(() => nameOf('{data.toString}', {})).toThrow('is missing');
  expect(() => nameOf('{data.length}', 'abc')).toThrow('is missing');
  expect(() => nameOf('{data.list.length}', { list: [1] })).toThrow('is missing');
  expect(() => nameOf('{id}', {}, { id: undefined })).toThrow('{id} is missing');
  for (const key of ['__proto__', 'constructor', 'prototype']) {
    expect(parseTemplate(`{data.${key}}`)).toMatchObject({ column: 1, message: 'names a field that no job has' });
  }
});
