import { LeaseManager } from '@leasehold/core';
import { redisStore } from '@leasehold/core/redis';
import { describe, expect, inject } from 'vitest';

import { builtCommand } from '../support/built-command.ts';
import { testNeeding } from '../support/needing.ts';
import { uniqueName } from '../support/redis-client.ts';
import { Terminal } from '../support/terminal.ts';

const redisUrl = inject('redisUrl');
const leasehold = [process.execPath, builtCommand].map((part) => `'${part}'`).join(' ');
const LONG = `customer:${'0123456789'.repeat(9)}`;

interface Shop extends AsyncDisposable {
  /** The command with this shop's store. */
  readonly command: (line: string) => string;
  readonly manager: LeaseManager;
}

function shop(): Shop {
  const prefix = uniqueName();
  const manager = new LeaseManager({ store: redisStore(redisUrl, { prefix }), history: 'all', owner: 'web-7f9c' });
  return {
    manager,
    command: (line) => `${leasehold} ${line} -u '${redisUrl}' --prefix '${prefix}'`,
    [Symbol.asyncDispose]: async () => void (await manager.close({ grace: 0, abandonAfter: 0 })),
  };
}

/** One line of a table as a pattern: columns are parted by two spaces at least. */
const row = (...cells: readonly string[]): RegExp => new RegExp(`^${cells.join(' {2,}')}`, 'm');

const widest = (lines: readonly string[]): number => Math.max(...lines.map((line) => line.length));

describe('in a real terminal', () => {
  testNeeding(
    'tmux',
    'tables fit 80 columns, are whole at 200 and in a pipe, and have colour only where it is wanted',
    async () => {
      await using here = shop();
      await using _held = await here.manager.acquire('customer:42');
      await using _long = await here.manager.acquire(LONG);
      const ls = here.command('ls');
      await using narrow = await Terminal.start(ls, { columns: 80, rows: 20 });
      await using wide = await Terminal.start(ls, { columns: 200, rows: 20 });
      await using piped = await Terminal.start(`${ls} 2>/dev/null | cat`, { columns: 200, rows: 20 });
      await using plain = await Terminal.start(ls, { columns: 80, rows: 20, env: { NO_COLOR: '1' } });
      await using dumb = await Terminal.start(ls, { columns: 80, rows: 20, env: { TERM: 'dumb' } });

      const [at80, at200, inPipe] = await Promise.all([narrow, wide, piped].map((each) => each.shows(/^exit 0$/m)));
      expect(at80?.join('\n')).toMatch(row('HELD', 'customer:42', 'web-7f9c …', '\\d{16}', '\\d+\\.\\d s', '0', '-$'));
      expect(at80?.join('\n')).toMatch(/^HELD +customer:0\d+…/m);
      expect(widest(at80 ?? [])).toBeLessThanOrEqual(80);
      // A line that was wrapped would begin with the rest of the one before.
      expect(at80?.filter((line) => !/^(STATE|HELD|2 held|redis:|exit)/.test(line))).toEqual([]);
      expect(at200?.join('\n')).toMatch(row('HELD', LONG, 'web-7f9c pid \\d+ since \\S+'));
      expect(widest(at200 ?? [])).toBeGreaterThan(150);
      expect(inPipe?.join('')).toContain(LONG);
      expect(inPipe?.join('')).not.toContain('…');

      const shown = async (terminal: Terminal): Promise<string> => {
        await terminal.shows(/^exit 0$/m);
        return (await terminal.screen({ colours: true })).join('\n');
      };
      const ESCAPE = '\u001B[';
      expect(await shown(narrow)).toContain(`${ESCAPE}32mHELD`);
      for (const terminal of [piped, plain, dumb]) expect(await shown(terminal)).not.toContain(ESCAPE);
    },
  );

  testNeeding(
    'tmux',
    'top fills the screen, follows a new size, and gives the terminal back at q and at Ctrl-C',
    async () => {
      await using here = shop();
      await using _held = await here.manager.acquire('customer:42');
      await using _long = await here.manager.acquire(LONG);
      const top = `echo before; ${here.command('top -n 200ms')}`;
      await using first = await Terminal.start(top, { columns: 80, rows: 10 });
      await using second = await Terminal.start(top, { columns: 80, rows: 10 });

      const at80 = await first.shows(/^q quits/m);
      expect(at80).toHaveLength(10);
      expect(at80[0]).toMatch(/^2 HELD · 0 EXPIRED/);
      expect(widest(at80)).toBeLessThanOrEqual(80);
      await first.resize(200, 20);
      const at200 = await first.shows(new RegExp(`${LONG}[^]*\n{2}q quits`));
      expect(at200).toHaveLength(20);
      await first.resize(40, 6);
      const at40 = await first.shows(/^HELD +customer.*\n[^]*q quits/m);
      expect(at40).toHaveLength(6);
      expect(widest(at40)).toBeLessThanOrEqual(40);
      await first.resize(80, 10);

      await first.type('/customer:42');
      await first.press('Enter');
      const filtered = await first.shows(/only 'customer:42'/);
      expect(filtered.join('\n')).not.toContain('0123');
      await first.press('q');
      const after = await first.shows(/^exit 0$/m);
      expect(after[0]).toBe('before');
      expect(after.join('\n')).not.toContain('HELD');
      await second.shows(/^q quits/m);
      await second.press('C-c');
      expect((await second.shows(/^exit 130$/m))[0]).toBe('before');
    },
  );

  testNeeding('tmux', 'the help fits 80 columns', async () => {
    await using terminal = await Terminal.start(`${leasehold} --help`, { columns: 80, rows: 120 });
    const lines = await terminal.shows(/^exit 0$/m);
    expect(lines[0]).toMatch(/^Usage: leasehold/);
    // Wrapped text stands under its own column; what the terminal had to wrap begins a line.
    expect(lines.filter((line) => /^[a-z]/.test(line))).toEqual(['exit 0']);
  });
});
