import { expect, test } from 'vitest';

import { describeFence } from '../../src/testing/fence-suite.ts';
import { cellsSubject, hooks } from './subject.ts';

const { leftOut } = describeFence('a conditional fence', () => cellsSubject(), hooks);

test('a conditional fence has the means for every case', () => {
  expect(leftOut).toEqual([]);
});
