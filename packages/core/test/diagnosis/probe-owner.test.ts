import { execFileSync } from 'node:child_process';
import { describe, expect, test } from 'vitest';

import type { OwnerFinding, OwnerProbe, OwnerState } from '../../src/diagnosis/probe.ts';
import { allByHand, quote } from '../../src/diagnosis/probes/by-hand.ts';
import { factsOf } from '../../src/diagnosis/probes/facts.ts';
import { probeOwner } from '../../src/diagnosis/probes/probe-owner.ts';
import { plain } from '../../src/diagnosis/probes/words.ts';
import { ownerIdentity, type OwnerIdentity } from '../../src/owner.ts';

const owner: OwnerIdentity = {
  ...ownerIdentity('web-7f9c'),
  pid: 4121,
  startedAt: '2026-01-15T02:41:07.123Z',
  container: 'abababababab',
  pod: 'web-7f9c',
  podNamespace: 'prod',
  node: 'node-3',
  unit: 'reports.service',
};

function says(name: string, state: OwnerState | undefined, caveat = ''): OwnerProbe {
  const finding = (state: OwnerState): OwnerFinding => ({
    state,
    probe: name,
    detail: `seen by ${name}`,
    caveat,
    byHand: [`ask ${name}`],
  });
  return { name, probe: async () => (state === undefined ? undefined : finding(state)) };
}

describe('the answers of several probes', () => {
  test.each<[OwnerState, string, ...(OwnerState | undefined)[]]>([
    ['alive', 'b', 'gone', 'alive', 'unverifiable'],
    ['stopped', 'c', 'gone', undefined, 'stopped'],
    ['stopped', 'b', 'alive', 'stopped', 'gone'],
    ['gone', 'b', 'unverifiable', 'gone', undefined],
    ['alive', 'a, c', 'alive', 'gone', 'alive'],
    ['unverifiable', 'a, b', 'unverifiable', 'unverifiable', undefined],
    ['unverifiable', 'none', undefined, undefined, undefined],
  ])('are %s as %s said, whoever else says otherwise', async (state, probe, ...states) => {
    const probes = states.map((state, index) => says('abc'.charAt(index), state));
    expect(await probeOwner(owner, probes)).toMatchObject({ state, probe });
  });

  test('tell who disagrees, and every caveat', async () => {
    const probes = [
      says('same-host', 'alive', 'its cgroup'),
      says('docker', 'gone', 'unused'),
      says('nomad', 'unverifiable'),
    ];
    expect(await probeOwner(owner, probes)).toMatchObject({
      state: 'alive',
      detail: 'seen by same-host',
      caveat: 'docker says gone: seen by docker; its cgroup',
      byHand: expect.arrayContaining([
        'ask same-host',
        'ask docker',
        'ask nomad',
        'systemctl status --no-pager -- reports.service',
      ]),
    });
  });

  test('are none without an identity or without probes', async () => {
    expect(await probeOwner(null, [says('a', 'gone')])).toMatchObject({
      state: 'unverifiable',
      probe: 'none',
      byHand: [],
    });
    expect(await probeOwner(owner, [])).toMatchObject({ state: 'unverifiable', probe: 'none' });
  });
});

describe('a probe that gives no answer is unverifiable, and never in the way of another one:', () => {
  const never = (signal: AbortSignal): Promise<never> =>
    new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason as Error)));
  test.each<[string, OwnerProbe['probe'], RegExp]>([
    ['it rejects', async () => Promise.reject(new Error('no\u001B[2J such\nthing')), /^failed: no \[2J such thing$/],
    [
      'it throws',
      () => {
        throw new Error('at once');
      },
      /^failed: at once$/,
    ],
    ['it ends when it is told to', (_, { signal }) => never(signal), /^did not answer within 30 ms$/],
    ['it never ends', () => new Promise(() => {}), /^did not answer within 30 ms$/],
    [
      'its state is none',
      async () => ({ ...(await probeOwner(null, [])), state: 'toString' as OwnerState }),
      /a state that is none: toString/,
    ],
  ])('%s', async (_, probe, detail) => {
    const odd = { name: 'odd', probe };
    expect(await probeOwner(owner, [odd], { timeoutMs: 30 })).toMatchObject({
      state: 'unverifiable',
      probe: 'odd',
      detail: expect.stringMatching(detail),
    });
    expect(await probeOwner(owner, [odd, says('b', 'gone')], { timeoutMs: 30 })).toMatchObject({
      state: 'gone',
      probe: 'b',
    });
  });

  test('all of them are asked at once and have the same time', async () => {
    const late = Array.from({ length: 20 }, (_, index) => ({
      name: `n${index}`,
      probe: () => new Promise<never>(() => {}),
    }));
    const before = performance.now();
    const { detail } = await probeOwner(owner, late, { timeoutMs: 50 });
    expect(performance.now() - before).toBeLessThan(500);
    expect(detail.match(/did not answer within 50 ms/g)).toHaveLength(20);
  });
});

describe('commands to check by hand', () => {
  test('are filled in', () => {
    expect(allByHand(factsOf(owner))).toEqual([
      'ps -o pid,lstart,etime,stat,cmd -p 4121',
      "journalctl _PID=4121 --since '2026-01-15 02:41:07 UTC' --no-pager | tail -n 200",
      'systemctl status --no-pager -- reports.service',
      "journalctl --unit=reports.service --since '2026-01-15 02:41:07 UTC' --no-pager | tail -n 200",
      "docker container inspect --format '{{json .State}}' -- abababababab",
      'docker container logs --tail 200 -- abababababab',
      'kubectl get pod --namespace=prod --output=wide -- web-7f9c',
      'kubectl describe pod --namespace=prod -- web-7f9c',
      'kubectl logs --namespace=prod --previous --all-containers --tail=200 -- web-7f9c',
      'kubectl get node --output=wide -- node-3',
    ]);
  });

  const hostile = [
    '--kubeconfig=/tmp/x',
    '--all',
    '-w',
    '$(reboot)',
    'a;reboot',
    'a\nreboot',
    '../etc',
    "a'b",
    'a b',
    '',
    '\u001B[2J',
    'A',
    'x'.repeat(300),
  ];
  test.each(hostile)('leave out what cannot be a name: %j', (text) => {
    const odd = { pid: text, startedAt: text, container: text, pod: text, podNamespace: text, node: text, unit: text };
    expect(allByHand(factsOf({ ...owner, ...odd } as unknown as OwnerIdentity))).toEqual([]);
  });

  test.each(['a b', "it's", '$(echo x)', '`echo x`', '"', '\\', '*', '~', '', '-x', '{{json .State}}', '!!', '#'])(
    'are read by a shell as they were meant: %j',
    (word) => {
      expect(execFileSync('sh', ['-c', `printf '%s|' ${quote(word)} ${quote('end')}`], { encoding: 'utf8' })).toBe(
        `${word}|end|`,
      );
    },
  );
});

test('what is printed has one line without anything that a terminal obeys', () => {
  expect(plain('a\u001B[31mb\r\nc\u202Ed\u0000\u009Be\u2028f')).toBe('a [31mb c d e f');
  expect(plain('x'.repeat(5000))).toHaveLength(200);
});

test('a pid, times and ids of a record count only if they can be such', () => {
  const odd = {
    pid: 2 ** 22 + 1,
    startTicks: -1,
    startedAt: '2026-01-15 02:41',
    machineId: 'uninitialized',
    bootId: 'x',
    pidNamespace: 'pid:[x]',
    host: '-h',
  };
  expect(factsOf({ ...owner, ...odd, container: 'ABAB', pod: undefined })).toMatchObject(
    Object.fromEntries(Object.keys({ ...odd, container: 1, pod: 1 }).map((name) => [name, undefined])),
  );
});
