import { call } from './call.ts';

const HEAD = `# The command \`leasehold\`

Who owns what, letting go, and running under a lease. What follows is what \`--help\` says.

- Data goes to the standard output, everything else to standard error: also the line that says which store is asked
  (\`redis://host:port/db · prefix\`), which never shows a password.
- On a terminal, tables are aligned, cut to its width, and instants are relative to now. In a pipe the columns are the
  same, separated by tabs, nothing is cut, and instants are ISO 8601, UTC. With \`--json\` it is one object; \`schema\`
  names its shape, \`leasehold/<thing>/v1\`; durations end in \`Ms\`, tokens are numbers.
- Colours are off in a pipe, with \`NO_COLOR\`, \`--no-color\` and \`TERM=dumb\`; \`FORCE_COLOR\` has them everywhere. They
  never say anything that is not also a word: \`HELD\`, \`STOPPING\` (held, its owner was asked to let go), \`EXPIRED\` (its
  lease ran out and nobody has taken it), \`FREE\`.
- The store is that of \`--url\`, else of \`--config\`, else of \`LEASEHOLD_REDIS_URL\`, else of \`REDIS_URL\`, else
  \`redis://127.0.0.1:6379\`. \`REDISCLI_AUTH\` is the password of an address without one.
- What the store says may be outdated when you read it. Nothing may be decided by it; a fence decides.
`;

const EXEC = `
The command runs in a process group of its own, with the standard streams of \`leasehold\`. SIGINT, SIGTERM, SIGHUP, SIGQUIT
and SIGUSR2 are forwarded to the group, once each; \`leasehold\` then waits for the command, which may take its time: its
lease is extended meanwhile. It cannot be suspended with Ctrl-Z, because a process that is stopped extends no lease.

| what happens | the command gets | exit code |
| --- | --- | --- |
| it ends | | its own; 128 + n if a signal ended it |
| it cannot be started | | 127 not found, 126 not executable; a tick is given back |
| the resource is busy, or the tick is done with | is not run | 75, or that of \`-E\` |
| the lease is lost | SIGTERM, and SIGKILL after \`--kill-after\` | 76 |
| the owner is asked to let go (\`leasehold stop\`) | SIGTERM, and SIGKILL after \`--kill-after\`, or before the lease is over | its own |
| \`leasehold\` itself is killed with SIGKILL | nothing: it goes on, and its lease runs out | 137 |

The last line, and a machine that is paused, are why a command that writes needs a fence: \`LEASEHOLD_RESOURCE\` (the
qualified name, as fences know it), \`LEASEHOLD_FENCING_TOKEN\` and \`LEASEHOLD_LEASE_ID\` are its grant, see
[fences](fences.md). A process that the command leaves running is no longer under the lease when the command has ended.
`;

/** `docs/cli.md`: the help of every command, at 80 columns. */
export async function cliDoc(verbs: readonly string[]): Promise<string> {
  const parts = [HEAD, '## leasehold\n', await help([])];
  for (const verb of verbs)
    parts.push(`## leasehold ${verb}\n`, await help([verb]), ...(verb === 'exec' ? [EXEC.trimStart()] : []));
  return parts.join('\n');
}

async function help(verb: readonly string[]): Promise<string> {
  const { stdout } = await call([...verb, '--help']);
  return `\`\`\`text\n${stdout.trimEnd()}\n\`\`\`\n`;
}
