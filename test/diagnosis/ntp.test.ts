import { readNtp } from '@leasehold/core/diagnosis';
import { afterEach, describe, expect, test } from 'vitest';

import { FakeTools } from '../support/fake-tool.ts';

// Executables that print what the real ones did: chronyc 4.3 of a chronyd that follows nobody, and of one that is its own
// server; timedatectl 252 without systemd. The others in the form that their sources give them.

const path = process.env['PATH'];
afterEach(() => void (process.env['PATH'] = path));

interface Fake {
  readonly says: string;
  readonly exit?: number;
}

/** With these tools and no others on the PATH. */
function tools(fakes: Readonly<Record<string, string | Fake>>): FakeTools {
  const folder = new FakeTools();
  for (const [name, fake] of Object.entries(fakes)) {
    const { says, exit = 0 } = typeof fake === 'string' ? { says: fake } : fake;
    folder.tool(says.startsWith('#') ? says : `printf '%s\n' '${says}'; exit ${exit}`, name);
  }
  process.env['PATH'] = folder.folder;
  return folder;
}

function tracking(systemTime: string, { stratum = 3, leap = 'Normal' } = {}): string {
  return [
    'Reference ID    : 7F7F0101 ()',
    `Stratum         : ${stratum}`,
    'Ref time (UTC)  : Mon Nov 30 07:11:07 2026',
    `System time     : ${systemTime} of NTP time`,
    'Last offset     : +0.000000000 seconds',
    'RMS offset      : 0.000000000 seconds',
    'Frequency       : 0.000 ppm slow',
    'Residual freq   : +0.000 ppm',
    'Skew            : 0.000 ppm',
    'Root delay      : 0.000000000 seconds',
    'Root dispersion : 0.000000000 seconds',
    'Update interval : 0.0 seconds',
    `Leap status     : ${leap}`,
  ].join('\n');
}

function timedatectl(synchronized: 'yes' | 'no', status: readonly string[] | undefined): string {
  const lines = status?.map((line) => `printf '%s\n' '${line}'`).join('; ') ?? 'exit 1';
  return `#\ncase "$1" in show) echo NTPSynchronized=${synchronized};; timesync-status) ${lines};; esac`;
}

function timesyncStatus(offset: string): string[] {
  return [
    '       Server: 2620:2d:4000:1::3f (ntp.ubuntu.com)',
    'Poll interval: 17min 4s (min: 32s; max 34min 8s)',
    '         Leap: normal',
    '      Version: 4',
    '      Stratum: 2',
    '    Reference: 91EECB0E',
    '    Precision: 1us (-25)',
    'Root distance: 6.232ms (max: 5s)',
    `       Offset: ${offset}`,
    '        Delay: 20.112ms',
    '       Jitter: 279.841ms',
    ' Packet count: 25',
    '    Frequency: +6.819ppm',
  ];
}

describe('chrony', () => {
  test.each([
    ['0.000000000 seconds fast', {}, { synchronized: true, offsetMs: 0, stratum: 3 }],
    ['0.250000000 seconds fast', { stratum: 8 }, { synchronized: true, offsetMs: 250, stratum: 8 }],
    ['1.500000000 seconds slow', {}, { synchronized: true, offsetMs: -1500, stratum: 3 }],
    [
      '0.000000000 seconds fast',
      { stratum: 0, leap: 'Not synchronised' },
      { synchronized: false, offsetMs: null, stratum: null },
    ],
    ['something else', {}, { synchronized: true, offsetMs: null, stratum: 3 }],
  ])('%s %o', async (systemTime, more, value) => {
    using _fakes = tools({ chronyc: tracking(systemTime, more), timedatectl: timedatectl('no', undefined) });
    const reading = await readNtp();
    expect(reading).toEqual({ known: true, value: { source: 'chronyc', ...value } });
  });
});

describe('timedatectl, where chronyc does not answer', () => {
  test.each([
    ['yes', '-1.204ms', { synchronized: true, offsetMs: 1.204, stratum: 2 }],
    ['yes', '+2min 3.5s', { synchronized: true, offsetMs: -123_500, stratum: 2 }],
    ['yes', '+0', { synchronized: true, offsetMs: null, stratum: 2 }],
    ['no', '+812us', { synchronized: false, offsetMs: -0.812, stratum: 2 }],
  ] as const)('synchronized: %s, the server ahead by %s', async (synchronized, offset, value) => {
    using _fakes = tools({
      chronyc: { says: '506 Cannot talk to daemon', exit: 1 },
      timedatectl: timedatectl(synchronized, timesyncStatus(offset)),
    });
    const reading = await readNtp();
    const { synchronized: isSynchronized, stratum } = value;
    expect(reading).toMatchObject({
      known: true,
      value: { source: 'timedatectl', synchronized: isSynchronized, stratum },
    });
    const { offsetMs } = (reading as { value: { offsetMs: number | null } }).value;
    if (value.offsetMs === null) expect(offsetMs).toBeNull();
    else expect(offsetMs).toBeCloseTo(value.offsetMs, 6);
  });

  test('another client keeps the clock: synchronized, by how much is not known', async () => {
    using _fakes = tools({ timedatectl: timedatectl('yes', undefined) });
    expect(await readNtp()).toEqual({
      known: true,
      value: { source: 'timedatectl', synchronized: true, offsetMs: null, stratum: null },
    });
  });
});

describe('where nobody answers it is not known, and why is said', () => {
  test('neither is installed', async () => {
    using _fakes = tools({});
    expect(await readNtp()).toEqual({
      ...{ known: false, why: 'not-known' },
      detail: 'chronyc: not installed; timedatectl: not installed',
    });
  });

  test('neither has its daemon', async () => {
    using _fakes = tools({
      chronyc: { says: '506 Cannot talk to daemon', exit: 1 },
      timedatectl: {
        says: 'System has not been booted with systemd as init system (PID 1). Can not operate.',
        exit: 1,
      },
    });
    expect(await readNtp()).toMatchObject({
      known: false,
      detail:
        'chronyc: 506 Cannot talk to daemon; timedatectl: System has not been booted with systemd as init system (PID 1). Can not operate.',
    });
  });

  test('one hangs: it is ended, and the other is not begun', async () => {
    using _fakes = tools({ chronyc: '#\nexec /bin/sleep 60', timedatectl: timedatectl('yes', undefined) });
    const startedMs = performance.now();
    const reading = await readNtp({ signal: AbortSignal.timeout(200) });
    expect(reading).toMatchObject({ known: false, detail: expect.stringContaining('chronyc: ') });
    expect(performance.now() - startedMs).toBeLessThan(5000);
  });
});
