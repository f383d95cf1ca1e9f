import type { JobSettings } from '../config/settings.ts';
import { CliError, EXIT } from '../exit.ts';
import { sameStore } from '../output/again.ts';
import { quoteWord } from '../output/quote.ts';
import { configHere, readConfig } from './config-file.ts';
import type { CommonFlags } from './flags.ts';
import type { Connected, Session } from './session.ts';

/** What the lease of a job is on, as the config has it; `{…}` stands for what a job of the queue or a tick is named by. */
export function resourceText(job: JobSettings): string {
  if (job.kind === 'queue') return job.lease.resource.text;
  return job.lease.resource ?? `${job.name}@{tick}`;
}

/** The command that shows the leases of a job. */
export function leasesOfJob(job: JobSettings, flags: CommonFlags): string {
  const text = resourceText(job);
  const pattern = text.replaceAll(/\{[^}]*\}/g, '*');
  return `leasehold ${pattern === text ? 'show' : 'ls'} ${quoteWord(pattern)}${sameStore(flags)}`;
}

export interface JobsOfConfig {
  readonly file: string;
  readonly jobs: readonly JobSettings[];
}

/** Those of the config that a question about a store is asked with. */
export async function jobsOfConfig(session: Session, flags: CommonFlags): Promise<JobsOfConfig | undefined> {
  const { env } = session.io;
  const file = flags.config ?? (await configHere(flags, env));
  return file === undefined ? undefined : { file, jobs: (await readConfig(file, env)).config.settings.jobs };
}

/** Who names a job where a resource is meant is told what its lease is on. */
export async function noRecord(
  session: Session,
  { flags, target: { prefix } }: Connected,
  resource: string,
): Promise<CliError> {
  const job = (await jobsOfConfig(session, flags))?.jobs.find(({ name }) => name === resource);
  const unknown = `nothing is known of ${resource} in ${prefix}: it was never held, or its record is gone`;
  const on = job === undefined ? resource : resourceText(job);
  if (job === undefined || on === resource) {
    const config = flags.config ?? (await configHere(flags, session.io.env));
    const again = sameStore({ ...flags, ...(config === undefined ? { prefix } : { config }) });
    // Which of the two it is shows at the fences, and at the server.
    return new CliError(EXIT.no, unknown, `leasehold diagnose ${quoteWord(resource)}${again}`);
  }
  return new CliError(EXIT.no, `${unknown}; the lease of the job ${resource} is on ${on}`, leasesOfJob(job, flags));
}
