import type { Command } from 'commander';

export const SHELLS = ['bash', 'zsh', 'fish'] as const;

export type Shell = (typeof SHELLS)[number];

interface Word {
  readonly word: string;
  readonly help: string;
}

interface VerbWords extends Word {
  readonly options: readonly Word[];
}

/** A script for the shell to read, made from the commands and options that there are. */
export function completionOf(shell: Shell, program: Command): string {
  const verbs = program.commands.map((command): VerbWords => ({
    word: command.name(),
    help: command.summary(),
    options: wordsOf(command),
  }));
  return WRITERS[shell](verbs, optionsOf(program));
}

type Writer = (verbs: readonly VerbWords[], options: readonly Word[]) => string;

/** Of a command that has commands of its own: their names, and what they may be given. */
function wordsOf(command: Command): readonly Word[] {
  const inner = command.commands.map((each) => ({ word: each.name(), help: each.summary() }));
  const all = [...inner, ...command.commands.flatMap(optionsOf), ...optionsOf(command)];
  return all.filter(({ word }, at) => all.findIndex((other) => other.word === word) === at);
}

function optionsOf(command: Command): readonly Word[] {
  return command
    .createHelp()
    .visibleOptions(command)
    .flatMap(({ long, description }) =>
      long === undefined || long === null ? [] : [{ word: long, help: description }],
    );
}

function words(list: readonly Word[]): string {
  return list.map(({ word }) => word).join(' ');
}

/** In single quotes, as every shell here reads them. */
function quoted(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}

// The verb is the first word that is none of its options; after -- stands another program's command line.
const bash: Writer = (verbs, options) => `# leasehold: source <(leasehold completion bash)
_leasehold() {
  local current="\${COMP_WORDS[COMP_CWORD]}" verb='' index
  for ((index = 1; index < COMP_CWORD; index++)); do
    case "\${COMP_WORDS[index]}" in
      --) compopt -o default; return ;;
${verbs.map(({ word }) => `      ${word}) [[ -z "$verb" ]] && verb=${word} ;;`).join('\n')}
    esac
  done
  local words
  case "$verb" in
${verbs.map((verb) => `    ${verb.word}) words=${quoted(words(verb.options))} ;;`).join('\n')}
    *) words=${quoted(`${words(verbs)} ${words(options)}`)} ;;
  esac
  COMPREPLY=($(compgen -W "$words" -- "$current"))
}
complete -o default -F _leasehold leasehold
`;

/** `name:help` of _describe. */
function described(list: readonly Word[]): string {
  return list.map(({ word, help }) => quoted(`${word}:${help.replaceAll(':', '\\:')}`)).join(' ');
}

const zsh: Writer = (verbs, options) => `#compdef leasehold
# leasehold: source <(leasehold completion zsh)
_leasehold() {
  local verb='' word
  local -a verbs options
  verbs=(${described(verbs)})
  for word in "\${(@)words[2,CURRENT-1]}"; do
    case "$word" in
      --) _default; return ;;
${verbs.map(({ word }) => `      ${word}) [[ -z "$verb" ]] && verb=${word} ;;`).join('\n')}
    esac
  done
  case "$verb" in
${verbs.map((verb) => `    ${verb.word}) options=(${described(verb.options)}) ;;`).join('\n')}
    *) options=(${described(options)}); _describe command verbs ;;
  esac
  _describe option options || _default
}
compdef _leasehold leasehold
`;

const fish: Writer = (verbs, options) => {
  const names = words(verbs);
  const line = (condition: string, rest: string, help: string): string =>
    `complete -c leasehold -n ${quoted(condition)} ${rest} -d ${quoted(help)}`;
  return `# leasehold: leasehold completion fish | source
${[
  ...verbs.map(({ word, help }) => line(`not __fish_seen_subcommand_from ${names}`, `-f -a ${word}`, help)),
  ...options.map(({ word, help }) => line(`not __fish_seen_subcommand_from ${names}`, `-l ${word.slice(2)}`, help)),
  ...verbs.flatMap((verb) =>
    verb.options.map(({ word, help }) =>
      line(
        `__fish_seen_subcommand_from ${verb.word}`,
        word.startsWith('--') ? `-l ${word.slice(2)}` : `-f -a ${word}`,
        help,
      ),
    ),
  ),
].join('\n')}
`;
};

const WRITERS: Readonly<Record<Shell, Writer>> = { bash, zsh, fish };
