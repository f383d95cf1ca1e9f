import { z } from 'zod';

import { parseOptions } from '../../options.ts';
import type { OwnerProbe, OwnerState } from '../probe.ts';
import { execute } from './execute.ts';
import { factsOf } from './facts.ts';
import { found, refused } from './tool.ts';
import { answer, plain, type Answer } from './words.ts';

const schema = z.strictObject({
  command: z.string('must be the executable').min(1, 'must be the executable'),
  args: z.array(z.string('must be a text'), 'must be an array of texts'),
  name: z
    .string('must be a text')
    .regex(/^[a-z][a-z0-9-]{0,31}$/, 'must be 1 to 32 of a-z 0-9 -, beginning with a letter'),
});

const STATES: readonly string[] = ['gone', 'alive', 'stopped', 'unverifiable'] satisfies OwnerState[];

/**
 * Asks a program of your own: `customCommand('/usr/local/bin/ask-nomad', [], { name: 'nomad' })`. It is run without a
 * shell and gets the owner's identity as one JSON object on standard input and in LEASEHOLD_PROBE_OWNER, and, if they look
 * like such, host and pid in LEASEHOLD_PROBE_HOST and LEASEHOLD_PROBE_PID. All of it comes from a record: treat it as
 * something that anybody may have written.
 *
 * It answers with exit code 0 and, as the first word on standard output, `gone`, `alive`, `stopped` or `unverifiable`; the
 * rest of that line is the detail. Anything else, a later end than the time that probes have, and an end by a signal
 * count as `unverifiable`. When the time is over the program is killed, but not what it has started.
 *
 * @throws ConfigError no command, or a name that is not 1 to 32 of a-z 0-9 -
 */
export function customCommand(
  command: string,
  args: readonly string[],
  options: { readonly name: string },
): OwnerProbe {
  const given = parseOptions(schema, { command, args, ...options });
  return {
    name: given.name,
    async probe(owner, { signal }) {
      const input = JSON.stringify(owner);
      const { host, pid } = factsOf(owner);
      const reply = await execute(given.command, given.args, {
        signal,
        input: `${input}\n`,
        env: { LEASEHOLD_PROBE_OWNER: input, LEASEHOLD_PROBE_HOST: host ?? '', LEASEHOLD_PROBE_PID: String(pid ?? '') },
      });
      return found(given.name, reply.exitCode === 0 ? read(reply.stdout) : refused(given.command, reply), []);
    },
  };
}

function read(stdout: string): Answer {
  const [, state = '', detail = ''] = stdout.match(/^([a-z]+)(?=[\s:]|$)[: \t]*(.*)/) ?? [];
  if (!STATES.includes(state)) {
    return answer(
      'unverifiable',
      `answered ${plain(JSON.stringify(stdout.slice(0, 60)))}, which is none of ${STATES.join(', ')}`,
    );
  }
  return { state: state as OwnerState, detail: plain(detail) || 'without a reason', caveat: 'as that program says' };
}
