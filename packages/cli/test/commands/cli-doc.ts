import { proofs } from '../../src/drill/proofs.ts';
import { call } from './call.ts';

const HEAD = `# The command \`leasehold\`

Who owns what, letting go, and running under a lease. What follows is what \`--help\` says.

- Data goes to the standard output, everything else to standard error: also the line that says which store is asked
  (\`redis://host:port/db · prefix\`), which never shows a password.
- On a terminal, tables are aligned, cut to its width, and instants are relative to now. In a pipe the columns are the
  same, separated by tabs, nothing is cut, and instants are ISO 8601, UTC. With \`--json\` it is one object; \`schema\`
  names its shape, \`leasehold/<thing>/v1\`; durations end in \`Ms\`, tokens are numbers. \`log --follow\` and
  \`ls --watch\` write one such object a line, for as long as they run.
- With \`--json\` an error is one object too, the last line of standard error (with \`--quiet\` the only one):
  \`leasehold/error/v1\` with \`exit\`, \`code\` (that of a Leasehold error, else what the exit code means, such as
  \`USAGE\` or \`NO\`), \`message\` and \`details\`, the lines that people are told after it.
- A reader that goes away (\`leasehold ls | head\`) is no error: what follows or watches ends with 0 at the next line that
  it would write. An output that cannot be written (a full device) is told in one line, and the exit code is 1.
- Colours are off in a pipe, with \`NO_COLOR\`, \`--no-color\` and \`TERM=dumb\`; \`FORCE_COLOR\` has them everywhere. They
  never say anything that is not also a word: \`HELD\`, \`STOPPING\` (held, its owner was asked to let go), \`EXPIRED\` (its
  lease ran out and nobody has taken it), \`FREE\`.
- The store is that of \`--url\`, else of \`--config\`, else of \`LEASEHOLD_REDIS_URL\`, else of the
  \`leasehold.yaml\`, \`.yml\` or \`.json\` in this folder, else of \`REDIS_URL\`, else \`redis://127.0.0.1:6379\`. The line on standard error
  says which of them it was, and names a config in this folder that was not asked: one that is a module has to be named,
  because a question runs no code. \`REDISCLI_AUTH\` is the password of an address without one.
- A version in an owner's line is that of the application, not of this program: of the package.json that npm or npx was
  started in. A process that was started without npm shows none.
- What the store says may be outdated when you read it. Nothing may be decided by it; a fence decides.
`;

const FENCE = `
What a fence is, and how to write through it: [fences](fences.md). \`install\`, \`protect\` and \`prune\` are the
functions of the library, \`installSchema\`, \`leasehold.protect\` and \`leasehold.prune\`, with a plan, a question and an exit code.
`;

const RUN = `
In a service, a container or in the background: \`node_modules/.bin/leasehold run\`, which gets the signals itself. \`npx
leasehold run\` is for a terminal, where Ctrl-C reaches all processes; a SIGTERM ends npx alone, and the jobs go on without it.

Its work does not depend on who reads its log: after \`leasehold run | head\` the jobs go on, with their log lost, until
SIGTERM or SIGINT. So that no line is lost, write the log to a file or to what collects logs.
`;

const LOG = `
\`--follow\` asks twice a second and tells each event once, the oldest first, also of a resource that nobody knows yet. If the
store does not answer it says so once, goes on asking, and says when it answers again; what has happened meanwhile is told
then, as far as the resource's log (64 events) reaches. It ends with 130 at Ctrl-C, with 143 at SIGTERM.
`;

const EXEC = `
Start it as \`node_modules/.bin/leasehold exec\` where something else than a terminal ends it: npx passes no SIGTERM on.

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
[fences](fences.md). A process that the command leaves running is no longer under the lease when the command has ended;
one that has left its process group (\`setsid\`, a daemon) gets no signal either when the lease is lost.
`;

const DRILL = `
| proof | what is done to the owner | what has to be so |
| --- | --- | --- |
${proofs.map(({ name, fault, claim }) => `| \`${name}\` | ${fault} | ${claim} |`).join('\n')}

In each, two processes want one resource, and the first one writes through a fence all the while. Afterwards its writes are tried once
more, through the lease and by the bare grant, as a worker that ignores its signal would send them. What processes, store
and fence did is a history, which \`checkHistory\` of \`@leasehold/core/testing\` judges. The step of the wall clock is one of what
the owner process reads, not of the machine; the store is cut off by a gate between the two, with a door for each server of a
Cluster, and for the master that sentinels name. What would harm others is not rehearsed: a store that stops, loses everything, is
full, or whose clock is stepped.

A fence of your own is a module with \`export function openFence()\`, which returns a fence or a promise of one; each process opens
it, so its memory must be a place that all of them share. Of a fence of the config the drill writes one row or key for each resource, and
removes it. For a user with rights of its own: those of \`redisAcl('leasehold-drill', user, { fence: true })\`, and
\`rpush\`, \`lrange\`; and \`%R~*\`, to see whether others hold leases: what may not be read is passed over.

\`p50\` and \`max\` are of all runs of \`--repeat\`. With \`--json\` it is one object, \`leasehold/drill/v1\`. Ctrl-C ends all its processes and
removes its keys; if it is killed itself, its processes end too, one that is stopped excepted, and \`leasehold-drill:*\` is left.
`;

/** What follows the help of a command. */
const NOTES: Readonly<Record<string, string>> = { log: LOG, run: RUN, exec: EXEC, drill: DRILL, fence: FENCE };

function noteOf(verb: string): readonly string[] {
  const note = NOTES[verb];
  return note === undefined ? [] : [note.trimStart()];
}

/** `docs/cli.md`: the help of every command, at 80 columns. */
export async function cliDoc(verbs: readonly string[]): Promise<string> {
  const parts = [HEAD, '## leasehold\n', await help([])];
  for (const verb of verbs) parts.push(`## leasehold ${verb}\n`, await help(verb.split(' ')), ...noteOf(verb));
  return parts.join('\n');
}

async function help(verb: readonly string[]): Promise<string> {
  const { stdout } = await call([...verb, '--help']);
  return `\`\`\`text\n${stdout.trimEnd()}\n\`\`\`\n`;
}
