import { known, unknown, type Reading } from '../store/reading.ts';
import { messageOf } from '../thrown.ts';
import { execute, isMissing, type Executed } from './probes/execute.ts';

/** What the NTP client of this host says of its clock. */
export interface NtpState {
  readonly source: 'chronyc' | 'timedatectl';
  /** Whether it follows a server at all. */
  readonly synchronized: boolean;
  /** This host's clock minus the true time as it is known, milliseconds; null if it does not say. */
  readonly offsetMs: number | null;
  /** Steps from a reference clock, 1 for the server of one; null if it does not say. */
  readonly stratum: number | null;
}

export interface NtpOptions {
  /** Ends the programs. Default: after 3 s. */
  readonly signal?: AbortSignal;
}

const TIMEOUT_MS = 3000;

/**
 * Asks `chronyc`, then `timedatectl`. It changes nothing and needs no rights. Never rejects: where neither is installed, or
 * none answers, the reading is not known and says why.
 */
export async function readNtp(options: NtpOptions = {}): Promise<Reading<NtpState>> {
  const signal = options.signal ?? AbortSignal.timeout(TIMEOUT_MS);
  const whys: string[] = [];
  for (const [name, ask] of [
    ['chronyc', chrony],
    ['timedatectl', timesync],
  ] as const) {
    try {
      const answer = await ask(signal);
      if (typeof answer !== 'string') return known(answer);
      whys.push(`${name}: ${answer}`);
    } catch (error) {
      whys.push(`${name}: ${isMissing(error) ? 'not installed' : messageOf(error)}`);
    }
  }
  return unknown('not-known', whys.join('; '));
}

/** Its report for people: that one says in words which way the clock is off. `-n`: it looks up no names. */
async function chrony(signal: AbortSignal): Promise<NtpState | string> {
  const reply = await execute('chronyc', ['-n', 'tracking'], { signal });
  const of = fieldsOf(reply.stdout);
  const leap = of.get('Leap status');
  if (reply.exitCode !== 0 || leap === undefined) return refusal(reply);
  const [, seconds, way] = /^(\d+\.\d+) seconds (slow|fast) of NTP time$/.exec(of.get('System time') ?? '') ?? [];
  const synchronized = leap !== 'Not synchronised';
  return {
    source: 'chronyc',
    synchronized,
    offsetMs: seconds === undefined || !synchronized ? null : Number(seconds) * (way === 'slow' ? -1000 : 1000),
    stratum: synchronized ? stratumOf(of.get('Stratum')) : null,
  };
}

/** Whether the kernel's clock is kept is known with any NTP client; the offset only of systemd's own. */
async function timesync(signal: AbortSignal): Promise<NtpState | string> {
  const shown = await execute('timedatectl', ['show', '--property=NTPSynchronized'], { signal });
  const synchronized = /^NTPSynchronized=(yes|no)$/m.exec(shown.stdout)?.[1];
  if (shown.exitCode !== 0 || synchronized === undefined) return refusal(shown);
  const reply = await execute('timedatectl', ['timesync-status', '--no-pager'], { signal });
  const of = fieldsOf(reply.exitCode === 0 ? reply.stdout : '');
  // What it prints is how far the server is ahead.
  const ahead = spanMs(of.get('Offset') ?? '');
  return {
    source: 'timedatectl',
    synchronized: synchronized === 'yes',
    offsetMs: ahead === undefined ? null : 0 - ahead,
    stratum: stratumOf(of.get('Stratum')),
  };
}

function fieldsOf(text: string): ReadonlyMap<string, string> {
  return new Map(
    text.split('\n').map((line) => {
      const at = line.indexOf(':');
      return [line.slice(0, Math.max(0, at)).trim(), line.slice(at + 1).trim()] as const;
    }),
  );
}

function refusal({ exitCode, stdout, stderr }: Executed): string {
  const words = `${stderr}\n${stdout}`.trim().split('\n', 1)[0]?.trim() ?? '';
  return words === '' ? `ended with ${exitCode} and without a word` : words.slice(0, 200);
}

/** 1 to 15; 0 and 16 are those of a client that follows nobody (RFC 5905, figure 11). */
function stratumOf(text: string | undefined): number | null {
  const stratum = Number(text ?? '');
  return Number.isInteger(stratum) && stratum >= 1 && stratum <= 15 ? stratum : null;
}

const UNITS: Readonly<Record<string, number>> = { us: 0.001, ms: 1, s: 1000, min: 60_000, h: 3_600_000 };

/** A time span as systemd writes it: `-1.204ms`, `+2min 3.4s`. */
function spanMs(text: string): number | undefined {
  const [, sign, spans] = /^([+-]?)((?:\d+(?:\.\d+)?(?:us|ms|s|min|h) ?)+)$/.exec(text) ?? [];
  if (spans === undefined) return undefined;
  let sum = 0;
  for (const [, value, unit] of spans.matchAll(/(\d+(?:\.\d+)?)([a-z]+)/g)) {
    sum += Number(value) * (UNITS[unit ?? ''] ?? Number.NaN);
  }
  return sign === '-' ? -sum : sum;
}
