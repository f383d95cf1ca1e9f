import { type Command, InvalidArgumentError, Option } from 'commander';
import type { ConnectionFlags } from '../connection.ts';
import type { OutputFlags } from '../output/output.ts';

/** What every command may be given, before its name or after it. */
export type CommonFlags = ConnectionFlags & OutputFlags;

const OUTPUT = 'Output:';
const CONNECTION = 'Connection:';

export function withOutputFlags(command: Command): Command {
  return command
    .addOption(new Option('--json', 'one JSON object, with the name of its shape in "schema"').helpGroup(OUTPUT))
    .addOption(new Option('-q, --quiet', 'only data and errors').helpGroup(OUTPUT))
    .addOption(new Option('-v, --verbose', 'causes, and what the lease manager does').helpGroup(OUTPUT))
    .addOption(new Option('--utc', 'instants as ISO 8601, not relative to now').helpGroup(OUTPUT))
    .addOption(new Option('--no-color', 'as NO_COLOR does').helpGroup(OUTPUT));
}

export function withConnectionFlags(command: Command): Command {
  return command
    .addOption(
      new Option(
        '-u, --url <uri>',
        'redis://host:port/db, or from LEASEHOLD_REDIS_URL, REDIS_URL; with -c this server, prefix and fences as there',
      ).helpGroup(CONNECTION),
    )
    .addOption(new Option('--prefix <prefix>', 'namespace of the leases (leasehold)').helpGroup(CONNECTION))
    .addOption(new Option('-c, --config <file>', 'store and prefix of a config file').helpGroup(CONNECTION))
    .addOption(new Option('--tls', 'as rediss:// does').helpGroup(CONNECTION))
    .addOption(
      new Option('--cacert <file>', 'the authority to trust (PEM); password from REDISCLI_AUTH').helpGroup(CONNECTION),
    )
    .addOption(new Option('--cert <file>', 'our own certificate (PEM), with --key').helpGroup(CONNECTION))
    .addOption(new Option('--key <file>', 'its key (PEM)').helpGroup(CONNECTION))
    .addOption(new Option('--sni <name>', 'the name that the server’s certificate has').helpGroup(CONNECTION))
    .addOption(new Option('--cluster', 'the address is that of a node of a Redis Cluster').helpGroup(CONNECTION));
}

/** For `Option.argParser`: a duration as the library reads it, kept as text. */
export function durationFlag(text: string): string {
  if (/^\d+(\.\d+)?(ms|s|m|h|d)$/.test(text) || text === '0') return text;
  throw new InvalidArgumentError("Give a number with a unit, such as '250ms', '30s' or '5m'.");
}

/** An instant, or how long ago it was. */
export function sinceFlag(text: string): string {
  if (/^\d+(\.\d+)?(ms|s|m|h|d)$/.test(text) || !Number.isNaN(instantOf(text))) return text;
  throw new InvalidArgumentError("Give a duration such as '1h', or an instant such as 2026-11-30T03:00:00Z.");
}

/** With a zone: what has none would be another instant on each machine. NaN for what is none. */
export function instantOf(text: string): number {
  return Date.parse(/^\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:\d\d)$/.test(text) ? text : '');
}

export function countFlag(text: string): number {
  if (/^[1-9]\d{0,5}$/.test(text)) return Number(text);
  throw new InvalidArgumentError('Give a whole number, 1 or more.');
}

/** How many of the next ticks to tell. */
export function nextFlag(count: number): Option {
  return new Option('--next <count>', 'how many of the next ticks to tell, 0 to 100')
    .argParser((text) => {
      if (/^\d{1,3}$/.test(text) && Number(text) <= 100) return Number(text);
      throw new InvalidArgumentError('Give a whole number, 0 to 100.');
    })
    .default(count);
}
