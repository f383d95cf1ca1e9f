import type { LeaseInfo } from '@leasehold/core';
import type { Command } from 'commander';
import { eventTable, tickTable } from '../output/events.ts';
import { concern, stateTone, stateWord, tokenText } from '../output/lease.ts';
import type { Output } from '../output/output.ts';
import type { Tone } from '../output/style.ts';
import { formatDuration } from '../output/time.ts';
import { noRecord } from './job-resource.ts';
import { withLeases, type Session } from './session.ts';

interface ShowFlags {
  readonly job?: string;
}

const EVENTS = 10;

type Field = readonly [name: string, value: string, tone?: Tone];

export function addShow(program: Command, session: Session): Command {
  return program
    .command('show')
    .summary('one lease: record, owner, previous tenure, last events')
    .description(
      'Shows what the store knows of one resource. It may be outdated when you read it. Exit 3 if there is no record: never held, or its record is gone.',
    )
    .argument('<resource>', 'its name, as given to the lease')
    .option('--job <job>', 'also the last ticks that this job has claimed on it')
    .action(async (resource: string, { job }: ShowFlags, command: Command) => {
      await withLeases(session, command, async (connected) => {
        const { leases, target, output } = connected;
        const info = await leases.inspect(resource);
        if (info === null) throw await noRecord(session, connected, resource);
        const [events, ticks] = await Promise.all([
          leases.history(resource, { limit: EVENTS }),
          job === undefined ? [] : leases.runs(job, { resource }),
        ]);
        if (output.isJson) {
          return output.json('lease', {
            namespace: target.prefix,
            ...info,
            events,
            ...(job !== undefined && { job, ticks }),
          });
        }
        output.fields(fieldsOf(info, target.prefix, output));
        if (events.length > 0) {
          output.heading('Last events');
          await eventTable(output, events);
        }
        if (job === undefined) return;
        if (ticks.length === 0) return output.note(`Job ${job} has never claimed a tick on ${resource}.`);
        output.heading(`Ticks of ${job}`);
        await tickTable(output, ticks);
      });
    });
}

function fieldsOf(info: LeaseInfo, prefix: string, output: Output): readonly Field[] {
  const word = stateWord(info);
  const trouble = concern(info);
  const fields: Field[] = [
    ['resource', info.resource],
    ['qualified', `${prefix}/${info.resource}`],
    ['state', trouble === '' ? word : `${word}, ${trouble}`, stateTone(word)],
    ['token', tokenText(info.fencingToken)],
    ['lease id', info.leaseId || '-'],
  ];
  if (info.state !== 'free') {
    fields.push(
      ['owner', info.owner],
      ['acquired', output.instant(info.acquiredAt)],
      ['extended', `${output.instant(info.extendedAt)}, ${info.extensions} times`],
      info.state === 'held'
        ? ['left', `${formatDuration(info.remainingMs)} of ${formatDuration(info.ttlMs)}`]
        : ['expired', output.instant(info.expiresAt)],
      ...identityFields(info.identity),
    );
  }
  fields.push(['waiting', String(info.waiting)]);
  const { previous } = info;
  if (previous !== null) {
    const ended = `${previous.reason} ${output.instant(previous.endedAt)}`;
    fields.push(['previous', `${previous.owner || '-'}, token ${tokenText(previous.fencingToken)}, ${ended}`]);
  }
  return fields;
}

/** Another program may have written it: whatever its fields are, they are shown as text. */
function identityFields(identity: LeaseInfo['identity']): readonly Field[] {
  return Object.entries(identity ?? {})
    .filter(([, value]) => typeof value === 'string' || typeof value === 'number')
    .map(([name, value]): Field => [`owner.${name}`, String(value)]);
}
