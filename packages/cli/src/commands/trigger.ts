import { type Command, InvalidArgumentError, Option } from 'commander';
import type { Job } from 'bullmq';
import type { LoadedConfig } from '../config/load.ts';
import type { JobSettings, QueueJobSettings } from '../config/settings.ts';
import { addressOf } from '../connection.ts';
import type { Output } from '../output/output.ts';
import { CliError, EXIT } from '../exit.ts';
import { readConfig } from './config-file.ts';
import type { CommonFlags } from './flags.ts';
import { runFailure } from './run-failure.ts';
import { runJob } from './run-job.ts';
import { outputOf, type Session } from './session.ts';

interface TriggerFlags {
  readonly data?: { readonly value: unknown };
  readonly jobId?: string;
}

const CONNECT_TIMEOUT_MS = 3000;

export function addTrigger(program: Command, session: Session): Command {
  return program
    .command('trigger')
    .summary('run a job of a config file now: a queue gets one, others run here')
    .description(
      "Of a queue, adds one job to it, which whoever runs the queue takes, and prints its id. A cron or interval job is run once in this process, as 'leasehold run --once' does: under its lease, without a tick, 75 if it is running elsewhere.",
    )
    .argument('<job>', 'its name in the config')
    .argument('[file]', 'the config (leasehold.yaml and the like in this folder)')
    .addOption(new Option('--data <json>', 'of a queue: the data of the job (null)').argParser(jsonFlag))
    .option('--job-id <id>', 'of a queue: the id of the job, which is added once as long as it is there')
    .action(async (job: string, file: string | undefined, flags: TriggerFlags, command: Command) => {
      try {
        const { file: found, config } = await readConfig(file, session.io.env);
        const settings = await jobOf(config, job);
        if (settings.kind === 'queue') return await add(settings, flags, outputOf(session, command), found);
        if (flags.data !== undefined || flags.jobId !== undefined) {
          throw new CliError(EXIT.usage, `--data and --job-id are for queues, and ${job} is a job of a schedule`);
        }
        await runJob(config, job, session, command.optsWithGlobals<CommonFlags>());
      } catch (error) {
        throw await runFailure(error, session);
      }
    });
}

function jsonFlag(text: string): { readonly value: unknown } {
  try {
    return { value: JSON.parse(text) as unknown };
  } catch (error) {
    throw new InvalidArgumentError(`This is no JSON: ${(error as Error).message}`);
  }
}

async function jobOf(config: LoadedConfig, name: string): Promise<JobSettings> {
  const { onlyThese } = await import('../run/handlers.ts');
  const [job] = onlyThese(config, [name]).settings.jobs;
  if (job === undefined) throw new CliError(EXIT.unexpected, `no job ${name}`);
  return job;
}

async function add(job: QueueJobSettings, flags: TriggerFlags, output: Output, file: string): Promise<void> {
  const { queue, name } = job;
  const { data: { value: data } = { value: null }, jobId } = flags;
  checkResource(job, data, jobId);
  const address = addressOf(job.connection);
  output.note(`${address} · prefix ${job.prefix} · queue ${queue} · ${file}`, 'quiet');
  const added = await addTo(job, address, data, jobId);
  if (added === undefined) {
    throw new CliError(EXIT.no, `queue ${queue} has a job with the id ${jobId ?? ''} already, so nothing was added`);
  }
  const id = added.id ?? '';
  if (output.isJson) output.json('triggered', { job: name, queue, id });
  else output.line(id);
}

/** The worker would fail a job that does not say what its lease is on. */
function checkResource({ name, lease }: QueueJobSettings, data: unknown, jobId: string | undefined): void {
  // An id that the queue is to give is not known yet.
  if (jobId === undefined && lease.resource.fields.includes('id')) return;
  lease.resource.resourceOf({ name, id: jobId, data });
}

/** Undefined: one with this id was there already. */
async function addTo(
  { queue: queueName, prefix, connection, name }: QueueJobSettings,
  address: string,
  data: unknown,
  jobId: string | undefined,
): Promise<Job | undefined> {
  const [{ Queue }, { queueConnectionOf }] = await Promise.all([import('bullmq'), import('../redis.ts')]);
  // Somebody waits for the answer.
  const its = queueConnectionOf(connection, { calls: { connectTimeout: CONNECT_TIMEOUT_MS }, isPatient: false });
  const queue = new Queue(queueName, {
    prefix,
    connection: its.connection,
  });
  const trouble = new Promise<never>((_resolve, reject) => {
    queue.on('error', (error) => reject(unreachable(address, error)));
  });
  // Also when it comes after the answer.
  trouble.catch(() => {});
  try {
    await Promise.race([queue.waitUntilReady(), trouble]).catch((error: unknown) => {
      throw error instanceof CliError ? error : unreachable(address, error);
    });
    if (jobId !== undefined && (await Promise.race([queue.getJob(jobId), trouble])) !== undefined) return undefined;
    return await Promise.race([queue.add(name, data, jobId === undefined ? {} : { jobId }), trouble]);
  } catch (error) {
    if (error instanceof Error && error.message.startsWith('Custom Id')) {
      throw new CliError(EXIT.usage, `--job-id ${jobId ?? ''}: ${error.message}`);
    }
    throw error;
  } finally {
    await queue.close().catch(() => {});
    await its.close();
  }
}

function unreachable(address: string, error: unknown): CliError {
  const { message, code } = error as { readonly message?: string; readonly code?: string };
  return new CliError(
    EXIT.unreachable,
    `cannot reach ${address}, so nothing is known to be added: ${message || (code ?? String(error))}`,
    `redis-cli -u ${address} ping`,
  );
}
