// What people type who have redis-cli alone: as it is printed, through a shell.
import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { LeaseManager } from '@leasehold/core';
import { diagnose } from '@leasehold/core/diagnosis';
import { redisDiagnosisAcl, redisStore } from '@leasehold/core/redis';
import { afterAll, beforeAll, describe, expect, inject } from 'vitest';

import { guardedFolder, removeFolder } from '../../scripts/services/guard.mjs';
import { testNeeding } from '../support/needing.ts';
import { connectRedis, uniqueName } from '../support/redis-client.ts';

const redisUrl = inject('redisUrl');
const run = promisify(execFile);
let dir: string;

beforeAll(() => void (dir = guardedFolder('by-hand')));
afterAll(() => removeFolder(dir));

/** Of redis-cli, by a shell, in a folder of its own. */
async function typed(line: string, url = redisUrl): Promise<string> {
  const { stdout } = await run('sh', ['-ec', line], { cwd: dir, env: { ...process.env, REDIS_URL: url } });
  return stdout;
}

function scriptOf(lines: readonly { readonly command: string }[]): string {
  const command = lines.find((line) => line.command.includes(' EVAL_RO '))?.command;
  if (command === undefined) throw new Error('there is no script');
  return command;
}

/** Its lines by their first word. */
function fieldsOf(text: string): ReadonlyMap<string, string> {
  return new Map(text.split('\n').map((line) => [line.split(' ', 1)[0] ?? '', line.slice(line.indexOf(' ') + 1)]));
}

describe('the script that is printed for redis-cli', () => {
  testNeeding('redis-cli', 'tells the record, what is left of it, and its last events in one step', async () => {
    const prefix = uniqueName('hand');
    await using leases = new LeaseManager({ store: redisStore(redisUrl, { prefix }), history: 'all', ttl: 60_000 });
    await using lease = await leases.acquire('reports');
    const { byHand } = await diagnose(leases, 'reports', { probes: [] });
    const line = scriptOf(byHand);
    for (const text of [await typed(line), await typed(line.replace(' EVAL_RO ', ' EVAL '))]) {
      const fields = fieldsOf(text);
      expect(fields.get('type')).toBe('hash');
      expect(fields.get('pttl_ms')).toBe('-1');
      expect(fields.get('lease_id')).toBe(JSON.stringify(lease.leaseId));
      expect(fields.get('fencing_token')).toBe(JSON.stringify(String(lease.fencingToken)));
      expect([fields.get('state'), fields.get('ttl_ms'), fields.get('extensions')]).toEqual(['held', '60000', '0']);
      expect(Number(fields.get('left_ms'))).toBeGreaterThan(0);
      expect(Number(fields.get('left_ms'))).toBeLessThanOrEqual(60_000);
      expect(Number(fields.get('now_us')) / 1000).toBeGreaterThan(Date.now() - 3_600_000);
      expect(fields.get('event')).toContain('"event","acquired"');
    }
    const never = await diagnose(leases, 'never', { probes: [] });
    expect(fieldsOf(await typed(scriptOf(never.byHand))).get('type')).toBe('none');
  });

  testNeeding('redis-cli', 'is the same line for the shell whatever the resource is called', async () => {
    const prefix = uniqueName('hand');
    await using leases = new LeaseManager({ store: redisStore(redisUrl, { prefix }) });
    await using client = await connectRedis(redisUrl);
    for (const name of [
      'it\'s "quoted", and \\ back',
      '$(touch hurt)`touch hurt`',
      "';touch hurt;' # *{}%!~ é 漢 \u{1F600}",
      '-n --help',
    ]) {
      await using lease = await leases.acquire(name);
      const { byHand } = await diagnose(leases, name, { probes: [] });
      for (const { command } of byHand.filter((each) => each.command.includes(`${prefix}:{`))) {
        expect(await typed(command), command).not.toBe('');
      }
      expect(fieldsOf(await typed(scriptOf(byHand))).get('lease_id'), name).toBe(JSON.stringify(lease.leaseId));
      expect(existsSync(join(dir, 'hurt')), name).toBe(false);
    }
    // A name that only another program can have given, with a newline in it, is the name of no lease.
    await expect(diagnose(leases, 'two\nlines', { probes: [] })).rejects.toMatchObject({ code: 'CONFIG' });
    expect(await client.keys(`${prefix}:*`)).not.toEqual([]);
  });

  testNeeding('redis-cli', 'shows what others wrote as one line each, and nothing that is not a lease', async () => {
    const prefix = uniqueName('hand');
    await using leases = new LeaseManager({ store: redisStore(redisUrl, { prefix }) });
    await using client = await connectRedis(redisUrl);
    await using _lease = await leases.acquire('reports');
    await client.hset(`${prefix}:{reports}`, 'owner', 'me\nlease_id "forged"\u001B[2J');
    const line = scriptOf((await diagnose(leases, 'reports', { probes: [] })).byHand);
    const text = await typed(line);
    expect(text.match(/^lease_id /gm)).toHaveLength(1);
    expect(text).not.toContain('\u001B');
    await client.del(`${prefix}:{reports}`);
    await client.set(`${prefix}:{reports}`, 's3cret');
    expect(await typed(line)).not.toContain('s3cret');
    expect(fieldsOf(await typed(line)).get('type')).toBe('string');
  });

  testNeeding('redis-cli', 'and every other line needs no right that the ACL for looking does not give', async () => {
    const [prefix, user] = [uniqueName('hand'), uniqueName('looker')];
    await using client = await connectRedis(redisUrl);
    const [command = '', ...rights] = redisDiagnosisAcl(prefix, user).split(' ');
    await client.call(command, ...rights, '>s3cret');
    try {
      await using owner = new LeaseManager({ store: redisStore(redisUrl, { prefix }) });
      await using _lease = await owner.acquire('reports');
      const url = redisUrl.replace('redis://', `redis://${user}:s3cret@`);
      await using leases = new LeaseManager({ store: redisStore(url, { prefix }) });
      const { byHand } = await diagnose(leases, 'reports', { probes: [] });
      const ours = byHand.filter((each) => each.command.startsWith('redis-cli'));
      expect(ours.length).toBeGreaterThan(5);
      for (const each of ours) {
        const text = await typed(each.command, url);
        expect(text, each.command).not.toMatch(/NOPERM|ERR|^$/);
        expect(text).not.toContain('s3cret');
      }
      // It changes nothing, and may not.
      expect(await typed(`redis-cli -u "$REDIS_URL" DEL '${prefix}:{reports}'`, url)).toContain('NOPERM');
    } finally {
      await client.call('ACL', 'DELUSER', user);
    }
  });
});
