// There is no Docker daemon and no systemd here: small programs print what the tools would, by their documentation.
import { readFileSync } from 'node:fs';
import { afterAll, describe, expect, test, vi } from 'vitest';

import type { OwnerState } from '../../packages/core/src/diagnosis/probe.ts';
import { customCommand } from '../../packages/core/src/diagnosis/probes/custom-command.ts';
import { docker } from '../../packages/core/src/diagnosis/probes/docker.ts';
import { probeOwner } from '../../packages/core/src/diagnosis/probes/probe-owner.ts';
import { systemdAs } from '../../packages/core/src/diagnosis/probes/systemd.ts';
import type { OwnerIdentity } from '../../packages/core/src/owner.ts';
import { FakeTools, printing } from '../support/fake-tool.ts';
import { isAlive } from '../support/signals.ts';
import { asked, owner } from './owner.ts';

const tools = new FakeTools();
afterAll(() => tools[Symbol.dispose]());

describe('docker', () => {
  const contained = { ...owner, container: 'abababababab' };
  const state = (Status: string, StartedAt = '2026-01-15T02:41:06.912345678Z'): string =>
    printing(
      JSON.stringify({ Status, Running: true, Pid: 4121, ExitCode: 0, StartedAt, FinishedAt: '0001-01-01T00:00:00Z' }),
    );
  const failing = (text: string): string => `echo '${text}' >&2; exit 1`;

  test.each<[string, string, number, OwnerState, RegExp]>([
    ['runs', state('running'), 1, 'alive', /runs since 2026-01-15T02:41:06Z/],
    ['runs, another process', state('running'), 17, 'unverifiable', /whether process 17/],
    ['is paused', state('paused'), 1, 'stopped', /is paused/],
    ['has ended', state('exited'), 17, 'gone', /has ended \(exited/],
    ['is dead', state('dead'), 1, 'gone', /has ended/],
    ['is about to be started again', state('restarting'), 1, 'gone', /about to be/],
    [
      'was started again',
      state('running', '2026-01-15T03:00:00.1Z'),
      1,
      'gone',
      /started again since, at 2026-01-15T03:00:00Z/,
    ],
    ['was started again and paused', state('paused', '2026-01-15T03:00:00.1Z'), 1, 'gone', /started again since/],
    ['was never started', state('created'), 1, 'unverifiable', /is created/],
    [
      'is another daemon’s',
      failing('Error response from daemon: No such container: abababababab'),
      1,
      'unverifiable',
      /another daemon/,
    ],
    [
      'cannot be asked for',
      failing('Cannot connect to the Docker daemon at unix:///var/run/docker.sock.'),
      1,
      'unverifiable',
      /Cannot connect/,
    ],
    ['is described otherwise', printing('null'), 1, 'unverifiable', /form that is not known/],
  ])('an owner whose container %s', async (_, body, pid, state, detail) => {
    const { command, calls } = tools.tool(body);
    expect(await asked(docker({ command }), { ...contained, pid })).toMatchObject({
      state,
      probe: 'docker',
      detail: expect.stringMatching(detail),
    });
    expect(calls()).toEqual(['container inspect --format {{json .State}} -- abababababab']);
  });

  test('an owner without a container, or with a strange one, is not asked for', async () => {
    const signal = AbortSignal.timeout(1000);
    for (const container of [undefined, '--host=tcp://x', 'web', 'AB'.repeat(6)]) {
      expect(await docker().probe({ ...owner, container }, { signal })).toBeUndefined();
    }
  });
});

describe('systemd', () => {
  const unit = { ...owner, pid: 4121 };
  const show = (properties: Readonly<Record<string, string>>): string =>
    printing(
      Object.entries({
        LoadState: 'loaded',
        ActiveState: 'active',
        SubState: 'running',
        MainPID: '4121',
        InvocationID: owner.invocation,
        ControlGroup: '/system.slice/reports.service',
        KillMode: 'control-group',
        FreezerState: 'running',
        ...properties,
      })
        .map(([name, value]) => `${name}=${value}`)
        .join('\n'),
    );
  const again = { InvocationID: 'f'.repeat(32), MainPID: '5000' };
  const ended = { ActiveState: 'failed', SubState: 'failed', MainPID: '0', ControlGroup: '' };

  test.each<[string, string, Partial<OwnerIdentity>, OwnerState, RegExp]>([
    ['runs', show({}), {}, 'alive', /process 4121 is its main one/],
    ['is frozen', show({ FreezerState: 'frozen' }), {}, 'stopped', /is frozen/],
    ['has failed', show(ended), {}, 'gone', /is failed \(failed\) and nothing is left/],
    [
      'has failed and left processes',
      show({ ...ended, ControlGroup: '/x' }),
      {},
      'unverifiable',
      /cgroup still exists/,
    ],
    ['was started again', show(again), {}, 'gone', /started again since/],
    [
      'was started again and leaves processes',
      show({ ...again, KillMode: 'process' }),
      {},
      'unverifiable',
      /leaves processes/,
    ],
    ['was started who knows when', show(again), { invocation: undefined }, 'unverifiable', /which start/],
    ['has another main process', show({ MainPID: '5000' }), {}, 'unverifiable', /main process is another/],
    [
      'is not known',
      show({ LoadState: 'not-found', ActiveState: 'inactive', ControlGroup: '' }),
      {},
      'unverifiable',
      /no unit/,
    ],
    ['is one of another host', show(ended), { host: 'db-9' }, 'unverifiable', /another boot or host/],
    [
      'is one of another boot',
      show(ended),
      { bootId: '99999999-2222-4333-8444-555555555555' },
      'unverifiable',
      /another boot/,
    ],
    [
      'cannot be asked for',
      'echo "Failed to connect to bus: Host is down" >&2; exit 1',
      {},
      'unverifiable',
      /Host is down/,
    ],
  ])('an owner whose unit %s', async (_, body, its, state, detail) => {
    const { command } = tools.tool(body);
    expect(await asked(systemdAs(unit, { command }), { ...unit, ...its })).toMatchObject({
      state,
      probe: 'systemd',
      detail: expect.stringMatching(detail),
    });
  });

  test('systemctl is asked for the unit by its name alone', async () => {
    const { command, calls } = tools.tool(show({}));
    await asked(systemdAs(unit, { command }), unit);
    expect(calls()[0]).toMatch(/^show --property=[A-Za-z,]+ID,[A-Za-z,]+ -- reports\.service$/i);
    const signal = AbortSignal.timeout(1000);
    for (const odd of [undefined, '--now.service', 'a b.service', 'reports.target']) {
      expect(await systemdAs(unit, { command }).probe({ ...unit, unit: odd }, { signal })).toBeUndefined();
    }
  });
});

describe('a command of one’s own', () => {
  test.each<[string, string, OwnerState, string]>([
    ['a state', 'echo gone', 'gone', 'without a reason'],
    ['a detail', 'echo "stopped: allocation 7 is paused"; echo more', 'stopped', 'allocation 7 is paused'],
    ['escape sequences', String.raw`printf 'alive \033[2Jx'`, 'alive', '[2Jx'],
  ])('is believed if it says %s', async (_, body, state, detail) => {
    const probe = customCommand(tools.tool(body).command, [], { name: 'nomad' });
    expect(await asked(probe)).toMatchObject({ state, probe: 'nomad', detail, caveat: 'as that program says' });
  });

  test.each([
    ['fails', 'echo gone; exit 3', /exit code 3/],
    ['says nothing', 'true', /none of gone, alive/],
    ['says something else', 'echo GONE', /none of gone, alive/],
    ['says more than a state in one word', 'echo gone-ish', /none of gone, alive/],
    ['is ended by a signal', 'echo gone; kill -9 $$', /Command failed/],
    ['prints without end', 'yes gone', /maxBuffer/],
    ['never ends', 'echo gone; exec sleep 600', /did not answer within 500 ms/],
  ])('is unverifiable if it %s', async (_, body, detail) => {
    const probe = customCommand(tools.tool(body).command, [], { name: 'nomad' });
    const found = await probeOwner(owner, [probe], { timeoutMs: 500 });
    expect(found).toMatchObject({ state: 'unverifiable', probe: 'nomad', detail: expect.stringMatching(detail) });
  });

  test('is killed when the time is over, also if it does not want to end', async () => {
    const { command } = tools.tool(`trap '' TERM; echo $$ > "$0.pid"; exec sleep 600`);
    await probeOwner(owner, [customCommand(command, [], { name: 'nomad' })], { timeoutMs: 300 });
    const pid = Number(readFileSync(`${command}.pid`, 'utf8'));
    expect(pid).toBeGreaterThan(1);
    await vi.waitUntil(() => !isAlive(pid));
  });

  test('gets the owner on its standard input and in its environment, and its arguments without a shell between', async () => {
    const { command, calls } = tools.tool(`read line
      [ "$line" = "$LEASEHOLD_PROBE_OWNER" ] && echo "alive $LEASEHOLD_PROBE_PID on $LEASEHOLD_PROBE_HOST:$LEASEHOLD_PROBE_OWNER"`);
    const odd = { ...owner, host: 'db-1', name: '$(reboot)' };
    const { detail } = await asked(customCommand(command, ['--dc', '$HOME `x`'], { name: 'nomad' }), odd);
    expect(detail).toMatch(/^1 on db-1:\{"instance":"[^"]+","name":"\$\(reboot\)"/);
    expect(calls()).toEqual(['--dc $HOME `x`']);
  });

  test('is refused without a command or with a name that is none', () => {
    expect(() => customCommand('', [], { name: 'nomad' })).toThrow(/CONFIG.*command.*must be the executable/);
    expect(() => customCommand('x', [], { name: 'No mad' })).toThrow(/CONFIG.*name.*"No mad".*a-z 0-9/);
  });
});
