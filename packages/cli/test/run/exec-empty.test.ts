import { expect, test } from 'vitest';

import { call } from '../commands/call.ts';

test('leasehold exec with an empty command says so, asks for nothing and exits with 2', async () => {
  const { code, stdout, stderr } = await call(['exec', 'job', '-u', 'redis://127.0.0.1:1', '--', '']);
  expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
  expect(stderr).toBe('leasehold: the command is empty; name one after --\n');
});
