// There is no cluster here: a small program prints what kubectl would, by the documentation of its formats.
import { afterAll, describe, expect, test } from 'vitest';

import type { OwnerState } from '../../packages/core/src/diagnosis/probe.ts';
import { kubernetes } from '../../packages/core/src/diagnosis/probes/kubernetes.ts';
import type { OwnerIdentity } from '../../packages/core/src/owner.ts';
import { FakeTools, printing, type FakeTool } from '../support/fake-tool.ts';
import { asked, owner } from './owner.ts';

const tools = new FakeTools();
afterAll(() => tools[Symbol.dispose]());

describe('kubernetes', () => {
  const id = 'ab'.repeat(32);
  const ready = `node-3\\t${owner.bootId}\\tTrue`;
  const unready = `node-3\\t${owner.bootId}\\tUnknown`;
  const other = 'node-3\\t99999999-2222-4333-8444-555555555555\\tTrue';
  const forbidden =
    'Error from server (Forbidden): nodes is forbidden: User "ops" cannot list resource "nodes" in API group "" at the cluster scope';
  const notFound = 'Error from server (NotFound): pods "web-7f9c" not found';

  /** `nodes`: what is printed of them; undefined if they may not be listed. */
  function kubectl(pod: object | string, nodes?: string): FakeTool {
    const said = typeof pod === 'string' ? `echo '${pod}' >&2; exit 1` : printing(JSON.stringify(pod));
    return tools.tool(`case "$*" in
      *" nodes "*) ${nodes === undefined ? `echo '${forbidden}' >&2; exit 1` : `printf '${nodes}\\n'`};;
      *) ${said}\n;;
    esac`);
  }

  function pod(container: object, rest: { readonly phase?: string; readonly created?: string } = {}): object {
    const { phase = 'Running', created = '2026-01-15T02:41:00Z' } = rest;
    return {
      kind: 'Pod',
      metadata: { name: 'web-7f9c', namespace: 'prod', creationTimestamp: created },
      spec: { nodeName: 'node-3' },
      status: { phase, containerStatuses: [{ name: 'web', ready: true, restartCount: 0, ...container }] },
    };
  }

  const runs = { state: { running: { startedAt: '2026-01-15T02:41:06Z' } }, containerID: `containerd://${id}` };
  const runsAgain = { restartCount: 1, state: { running: { startedAt: '2026-01-15T03:00:00Z' } } };
  const ended = (reason: string): object => ({
    terminated: { exitCode: 137, reason, containerID: `containerd://${id}` },
  });
  const contained = { container: id.slice(0, 12) };
  const named = { context: 'prod-eu' };

  test.each<
    [string, object | string, string | undefined, Partial<OwnerIdentity>, { context?: string }, OwnerState, RegExp]
  >([
    // Alive
    ['runs since before the owner', pod(runs), ready, {}, {}, 'alive', /runs since 2026-01-15T02:41:06Z/],
    ['runs, and nodes may not be listed', pod(runs), undefined, {}, {}, 'alive', /runs since/],
    ['is the very container', pod(runs), ready, contained, {}, 'alive', /runs since/],
    ['runs on a node that does not report', pod(runs), unready, {}, {}, 'unverifiable', /stopped reporting/],
    [
      'runs, but the owner is not its first process',
      pod(runs),
      ready,
      { pid: 17 },
      {},
      'unverifiable',
      /whether process 17/,
    ],
    // Ended
    [
      'has no pod, and its node is up',
      notFound,
      ready,
      {},
      {},
      'gone',
      /no pod web-7f9c in prod, and its node node-3 is up/,
    ],
    ['has no pod, and its node does not report', notFound, unready, {}, {}, 'unverifiable', /may still run/],
    ['has no pod, in a cluster without its node', notFound, other, {}, {}, 'unverifiable', /cluster of the owner/],
    ['has no pod, and nodes may not be listed', notFound, undefined, {}, {}, 'unverifiable', /cluster of the owner/],
    [
      'has no pod, no boot id, no nodes',
      notFound,
      undefined,
      { bootId: undefined },
      {},
      'unverifiable',
      /cluster of the/,
    ],
    ['has no pod in the named context', notFound, undefined, {}, named, 'gone', /no pod web-7f9c in prod \(any more\)/],
    [
      'has no pod in the named context, but a silent node',
      notFound,
      unready,
      {},
      named,
      'unverifiable',
      /may still run/,
    ],
    [
      'was started again, by times',
      pod(runsAgain),
      ready,
      {},
      {},
      'gone',
      /every container of the pod has ended since/,
    ],
    ['was started again, in some cluster', pod(runsAgain), other, {}, {}, 'unverifiable', /cluster of the owner/],
    [
      'was started again, no boot id known',
      pod(runsAgain),
      undefined,
      { bootId: undefined },
      {},
      'unverifiable',
      /cluster/,
    ],
    [
      'was started again, by its id',
      pod({ ...runsAgain, lastState: ended('OOMKilled') }),
      other,
      contained,
      {},
      'gone',
      /restart 1/,
    ],
    [
      'waits to be started again',
      pod({ restartCount: 4, state: { waiting: { reason: 'CrashLoopBackOff' } }, lastState: ended('Error') }),
      ready,
      {},
      {},
      'gone',
      /every container/,
    ],
    ['has ended', pod({ state: ended('Completed') }, { phase: 'Succeeded' }), ready, {}, {}, 'gone', /\(Succeeded\)/],
    [
      'has ended, by its id',
      pod({ containerID: `containerd://${id}`, state: ended('Error') }),
      undefined,
      contained,
      {},
      'gone',
      /exit code 137/,
    ],
    [
      'is of a later pod of that name',
      pod(runs, { created: '2026-01-15T04:00:00Z' }),
      ready,
      {},
      {},
      'gone',
      /has been deleted/,
    ],
    // Doubtful
    [
      'is of a pod as old as the owner',
      pod(runs, { created: '2026-01-15T02:41:30Z' }),
      ready,
      {},
      {},
      'unverifiable',
      /clocks/,
    ],
    [
      'was lost from sight',
      pod({ state: ended('ContainerStatusUnknown') }, { phase: 'Failed' }),
      ready,
      {},
      {},
      'unverifiable',
      /may have run/,
    ],
    [
      'is marked as failed, its node being lost',
      pod(runs, { phase: 'Failed' }),
      unready,
      {},
      {},
      'unverifiable',
      /stopped reporting/,
    ],
    [
      'runs later without a restart',
      pod({ state: { running: { startedAt: '2026-01-15T03:00:00Z' } } }),
      unready,
      {},
      {},
      'unverifiable',
      /stopped/,
    ],
    [
      'may not be seen',
      'Error from server (Forbidden): pods "web-7f9c" is forbidden',
      ready,
      {},
      {},
      'unverifiable',
      /Forbidden/,
    ],
    [
      'cannot be asked for',
      'Unable to connect to the server: dial tcp: i/o timeout',
      ready,
      {},
      {},
      'unverifiable',
      /i\/o timeout/,
    ],
    [
      'is asked for in a context that is none',
      'error: context "web-7f9c" not found',
      ready,
      {},
      named,
      'unverifiable',
      /context/,
    ],
    ['is described otherwise', { kind: 'Status' }, ready, {}, {}, 'unverifiable', /form that is not known/],
  ])('an owner whose container %s', async (_, pod, nodes, its, options, state, detail) => {
    const { command } = kubectl(pod, nodes);
    const finding = await asked(kubernetes({ command, ...options }), { ...owner, ...its });
    expect(finding).toMatchObject({ state, probe: 'kubernetes', detail: expect.stringMatching(detail) });
    if (state === 'gone') expect(finding.caveat).toMatch(/may still arrive/);
  });

  test('kubectl is asked for the pod by its name alone', async () => {
    const { command, calls } = kubectl(pod(runs), ready);
    await asked(kubernetes({ command, context: 'prod-eu' }));
    expect(calls()[0]).toBe('get --context=prod-eu pod --namespace=prod --output=json -- web-7f9c');
  });

  test.each([
    ['--kubeconfig=/tmp/x', 'prod'],
    ['web', '--kubeconfig=/tmp/x'],
    ['--all', 'prod'],
    ['web', '--watch'],
    ['a/b', 'prod'],
    ['web;reboot', 'prod'],
    [undefined, 'prod'],
    ['web', undefined],
  ])('pod %j in %j is not asked for at all', async (pod, podNamespace) => {
    const { command, calls } = kubectl(notFound, ready);
    const probe = kubernetes({ command });
    expect(await probe.probe({ ...owner, pod, podNamespace }, { signal: AbortSignal.timeout(1000) })).toBeUndefined();
    expect(calls).toThrow('ENOENT');
  });

  test('without kubectl nothing is known', async () => {
    const finding = await asked(kubernetes({ command: `${tools.folder}/none` }));
    expect(finding).toMatchObject({ state: 'unverifiable', detail: expect.stringContaining('is not installed here') });
  });
});
