import type { Diagnosis } from './diagnose.ts';

/**
 * On what something was done, in one line for a log: verdict, owner, time on two clocks, fences. At most 512 characters;
 * what it has of others is escaped.
 */
export function summaryOf({ verdict, lease, owner, observation, fences }: Diagnosis): string {
  const ranOutMs = lease === null ? 0 : lease.readAt.getTime() - lease.expiresAt.getTime();
  const time =
    lease === null || lease.state === 'free'
      ? []
      : [
          ranOutMs >= 0 ? `ran out ${seconds(ranOutMs)} ago` : `runs for ${seconds(-ranOutMs)}`,
          observation.state === 'none' ? 'not watched' : `${observation.state} for ${seconds(observation.forMs)}`,
          `owner ${owner.state} (${owner.probe})`,
        ];
  const each = fences.map(({ name, enforcing, highest }) => {
    const at = highest === undefined ? 'silent' : highest === null ? 'knows nobody' : `at ${highest}`;
    return `${name} ${at}${enforcing ? '' : ', not enforcing'}`;
  });
  return [verdict.code, ...time, ...each].join(', ').slice(0, 512);
}

function seconds(ms: number): string {
  return `${(ms / 1000).toFixed(1)} s`;
}
