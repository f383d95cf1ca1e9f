import {
  ConfigError,
  ForeignKeyError,
  LeaseLostError,
  ResourceBusyError,
  StoreAuthError,
  StoreUnavailableError,
  StoreVersionError,
  TickRefusedError,
} from '@leasehold/core';
import { describe, expect, test } from 'vitest';
import { ConfigFileError } from '../../src/config/problem.ts';
import { CliError, EXIT, EXIT_MEANINGS, exitOfSignal } from '../../src/exit.ts';
import { describeFailure, failureJson } from '../../src/output/failure.ts';

const busy = { reason: 'held', holder: null, remainingMs: 1 } as const;
const loss = { reason: 'missing', leaseId: 'a', fencingToken: 1 } as const;
const problem = { file: 'a.yaml', line: 3, column: 5, path: 'jobs.a', message: 'is wrong', remedy: 'make it right' };

describe('the exit code', () => {
  test.each([
    ['unexpected', 1, new Error('x')],
    ['unexpected, also of what is no error', 1, 'x'],
    ['of a key that is not ours', 3, new ForeignKeyError('r', 'k', 'is a list')],
    ['of a wrong option', 2, new ConfigError('ttl', 'is wrong')],
    ['of a config', 2, new ConfigFileError([problem])],
    ['of a no', 3, new CliError(EXIT.no, 'still held')],
    ['of a store out of reach', 4, new StoreUnavailableError('gone', { mayHaveRun: false })],
    ['of a store that lets nobody in', 4, new StoreAuthError('wrong password')],
    ['of a store that is too old', 4, new StoreVersionError('6.2')],
    ['of a busy resource', 75, new ResourceBusyError('r', busy)],
    [
      'of a tick that is done with',
      75,
      new TickRefusedError('r', { reason: 'already-ran', aheadMs: 0, remainingMs: 0 }),
    ],
    ['of a lost lease', 76, new LeaseLostError('r', loss)],
  ])('%s is %d', async (_name, code, error) => expect((await describeFailure(error)).exit).toBe(code));

  test('of a signal is 128 + n', () => {
    expect([exitOfSignal('SIGINT'), exitOfSignal('SIGTERM')]).toEqual([EXIT.interrupted, EXIT.terminated]);
    expect(exitOfSignal('SIGKILL')).toBe(137);
  });

  test('has one meaning each', () => {
    expect(EXIT_MEANINGS.map(([code]) => code)).toEqual([0, 1, 2, 3, 4, 75, 76, 130, 143]);
  });
});

describe('an error', () => {
  const cause = Object.assign(new Error('connect ECONNREFUSED 127.0.0.1:1'), { code: 'ECONNREFUSED' });
  const unreachable = new StoreUnavailableError('redis could not be reached', { mayHaveRun: false, cause });

  test('of a key that is not ours sends to diagnose, and tells nobody to remove it', async () => {
    const [line = ''] = (await describeFailure(new ForeignKeyError('orders', 'shop:{orders}', 'is a list'))).lines;
    expect(line).toContain('find out whose it is first (leasehold diagnose orders)');
    expect(line).toContain('do not remove it while its owner may live');
  });

  test('says what happened, why, what that means, and what to type next', async () => {
    expect((await describeFailure(unreachable, { address: 'redis://h:1/0' })).lines).toEqual([
      'leasehold: STORE_UNAVAILABLE: redis could not be reached',
      'Because: connect ECONNREFUSED 127.0.0.1:1',
      'Nothing is known about any lease.',
      'Try: leasehold doctor -u redis://h:1/0',
    ]);
  });

  test('in JSON has its code, the message, and what else people are told', async () => {
    const place = { address: 'redis://h:1/0', hint: 'leasehold ls … --config a.yaml' };
    expect(JSON.parse(failureJson(await describeFailure(unreachable, place)))).toEqual({
      schema: 'leasehold/error/v1',
      exit: 4,
      code: 'STORE_UNAVAILABLE',
      message: 'STORE_UNAVAILABLE: redis could not be reached',
      details: [
        'Because: connect ECONNREFUSED 127.0.0.1:1',
        'Nothing is known about any lease.',
        'Try: leasehold ls … --config a.yaml',
      ],
    });
  });

  test.each([
    [new CliError(EXIT.no, 'held'), 'NO'],
    [new CliError(EXIT.notFound, 'x was not found'), 'NOT_FOUND'],
    [new ConfigFileError([problem]), 'CONFIG'],
    [new Error('?'), 'UNEXPECTED'],
  ])('has a code: %s', async (error, code) => expect((await describeFailure(error)).code).toBe(code));

  test('of a config has a line for each problem', async () => {
    const { lines } = await describeFailure(new ConfigFileError([problem, { ...problem, line: 9 }]));
    expect(lines).toEqual([
      'leasehold: the config cannot be used',
      'a.yaml:3:5 jobs.a: is wrong; make it right',
      'a.yaml:9:5 jobs.a: is wrong; make it right',
    ]);
  });

  test('with --verbose has where it comes from', async () => {
    const { lines } = await describeFailure(unreachable, { isVerbose: true });
    expect(lines.some((line) => line.includes('failure.test.ts'))).toBe(true);
  });

  test('with a ring of causes, or none of an error, is described all the same', async () => {
    const ring = new Error('a');
    ring.cause = ring;
    expect((await describeFailure(ring)).lines[0]).toBe('leasehold: a');
    expect((await describeFailure(null)).lines[0]).toBe('leasehold: null');
  });
});
