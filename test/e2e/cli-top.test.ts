import { PassThrough } from 'node:stream';
import { LeaseManager } from '@leasehold/core';
import { redisStore } from '@leasehold/core/redis';
import { describe, expect, inject, test, vi } from 'vitest';
import { main } from '../../packages/cli/src/program.ts';
import { startRedis } from '../support/redis-server.ts';
import { uniqueName } from '../support/redis-client.ts';

const redisUrl = inject('redisUrl');
const ENTER = '\u001B[?1049h\u001B[?25l\u001B[?7l';
const CLEARS = ['\u001B[K', '\u001B[J'];
const LEAVE = '\u001B[?7h\u001B[?25h\u001B[?1049l';

/** A terminal of which somebody sees all that is written, and types. */
class Terminal {
  readonly stdin = Object.assign(new PassThrough(), {
    isTTY: true,
    setRawMode: (isRaw: boolean) => (this.isRaw = isRaw),
  });
  readonly stdout = { isTTY: true, columns: 80, rows: 12, write: (text: string) => void (this.written += text) };
  readonly end: Promise<number>;
  isRaw = false;
  written = '';

  constructor(...args: string[]) {
    const { stdin, stdout } = this;
    this.end = main(['top', ...args], { stdin, stdout, stderr: { write: () => {} }, env: { NO_COLOR: '1' } });
  }

  /** The last picture. */
  get lines(): readonly string[] {
    const picture = this.written.split('\u001B[H').at(-1) ?? '';
    return picture.split('\r\n').map((line) => CLEARS.reduce((text, clear) => text.replace(clear, ''), line));
  }

  shows(pattern: RegExp): Promise<void> {
    return vi.waitFor(() => expect(this.lines.join('\n')).toMatch(pattern), { timeout: 10_000, interval: 20 });
  }

  type(keys: string): void {
    this.stdin.write(keys);
  }
}

function leases(url: string, prefix: string): LeaseManager {
  return new LeaseManager({ store: redisStore(url, { prefix }), owner: 'web-7f9c' });
}

describe('leasehold top', () => {
  test('shows who owns what as it changes, fits the terminal, filters, and gives the terminal back at q', async () => {
    const prefix = uniqueName();
    await using manager = leases(redisUrl, prefix);
    await using _first = await manager.acquire('customer:42');
    const terminal = new Terminal('-u', redisUrl, '--prefix', prefix, '-n', '100ms');
    await terminal.shows(/^1 HELD .*\nHELD +customer:42 +web-7f9c/ms);
    expect(terminal.written.startsWith(ENTER)).toBe(true);
    expect(terminal.isRaw).toBe(true);
    expect(terminal.lines).toHaveLength(12);

    await using _second = await manager.acquire('reports');
    await terminal.shows(/^2 HELD .*reports/ms);
    terminal.type('/cust');
    await terminal.shows(/^\/cust_/m);
    expect(terminal.lines.join('\n')).not.toContain('reports');
    terminal.type('\r');
    await terminal.shows(/only 'cust'/);

    Object.assign(terminal.stdout, { columns: 40, rows: 6 });
    process.emit('SIGWINCH', 'SIGWINCH');
    await vi.waitFor(() => expect(terminal.lines).toHaveLength(6));
    expect(Math.max(...terminal.lines.map((line) => line.length))).toBeLessThanOrEqual(40);

    // Behind a full line it would clear the last character.
    const starts = terminal.written.replaceAll('\r\n', '\n').split('\n').slice(1);
    expect(starts.filter((line) => !CLEARS.some((clear) => line.startsWith(clear)))).toEqual([]);

    terminal.type('q');
    expect(await terminal.end).toBe(0);
    expect(terminal.written.endsWith(LEAVE)).toBe(true);
    expect(terminal.isRaw).toBe(false);
  });

  test('says how old the picture is while the store does not answer; Ctrl-C ends it with 130', async () => {
    await using redis = await startRedis();
    const prefix = uniqueName();
    await using _manager = leases(redis.url, prefix);
    await using _lease = await _manager.acquire('customer:42');
    const terminal = new Terminal('-u', redis.url, '--prefix', prefix, '-n', '100ms');
    await terminal.shows(/^1 HELD/);
    await redis.stop();
    await terminal.shows(/^As of .* ago: .*\n.*\nHELD +customer:42/ms);
    terminal.type('\u0003');
    expect(await terminal.end).toBe(130);
    expect(terminal.written.endsWith(LEAVE)).toBe(true);
  });

  test('without a store is an error as of other commands, and takes no terminal', async () => {
    const terminal = new Terminal('-u', 'redis://127.0.0.1:1');
    expect(await terminal.end).toBe(4);
    expect(terminal.written).toBe('');
  });
});
