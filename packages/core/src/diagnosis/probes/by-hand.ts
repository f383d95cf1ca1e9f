/** Commands with which a person checks what a probe says. Each can be pasted into a shell as it is. */

import type { OwnerFacts } from './facts.ts';

const NEEDS_QUOTES = /[^A-Za-z0-9_./:=@%+,-]/;

/** One word of a POSIX shell's command line. */
export function quote(word: string): string {
  return word === '' || NEEDS_QUOTES.test(word) ? `'${word.replaceAll("'", String.raw`'\''`)}'` : word;
}

function line(...words: readonly string[]): string {
  return words.map(quote).join(' ');
}

/** On the owner's host, in its pid namespace. */
export function processByHand({ pid, startedAt }: OwnerFacts): string[] {
  if (pid === undefined) return [];
  // A form that every version of journalctl reads.
  const since =
    startedAt === undefined
      ? []
      : ['--since', `${new Date(startedAt).toISOString().slice(0, 19).replace('T', ' ')} UTC`];
  return [
    line('ps', '-o', 'pid,lstart,etime,stat,cmd', '-p', String(pid)),
    `${line('journalctl', `_PID=${pid}`, ...since, '--no-pager')} | tail -n 200`,
  ];
}

/**
 * Ends a process unless its number has been given to another since. SIGTERM stays pending as long as one is stopped, so
 * that needs SIGKILL.
 */
export function endByHand(pid: number, startTicks: number, isStopped: boolean): string {
  // Field 22 of proc_pid_stat(5), counted from behind the command, which may contain anything.
  const started = `"$(sed 's/.*) //' /proc/${pid}/stat | cut -d' ' -f20)"`;
  return `[ ${started} = ${startTicks} ] && kill -${isStopped ? 'KILL' : 'TERM'} ${pid}`;
}

export function podByHand({ pod, podNamespace, node }: OwnerFacts): string[] {
  if (pod === undefined || podNamespace === undefined) return [];
  const namespace = `--namespace=${podNamespace}`;
  return [
    line('kubectl', 'get', 'pod', namespace, '--output=wide', '--', pod),
    line('kubectl', 'describe', 'pod', namespace, '--', pod),
    line('kubectl', 'logs', namespace, '--previous', '--all-containers', '--tail=200', '--', pod),
    ...(node === undefined ? [] : [line('kubectl', 'get', 'node', '--output=wide', '--', node)]),
  ];
}

export function containerByHand({ container }: OwnerFacts): string[] {
  if (container === undefined) return [];
  return [
    line('docker', 'container', 'inspect', '--format', '{{json .State}}', '--', container),
    line('docker', 'container', 'logs', '--tail', '200', '--', container),
  ];
}

export function unitByHand({ unit, startedAt }: OwnerFacts): string[] {
  if (unit === undefined) return [];
  const since =
    startedAt === undefined
      ? []
      : ['--since', `${new Date(startedAt).toISOString().slice(0, 19).replace('T', ' ')} UTC`];
  return [
    line('systemctl', 'status', '--no-pager', '--', unit),
    `${line('journalctl', `--unit=${unit}`, ...since, '--no-pager')} | tail -n 200`,
  ];
}

export function allByHand(facts: OwnerFacts): string[] {
  return [...processByHand(facts), ...unitByHand(facts), ...containerByHand(facts), ...podByHand(facts)];
}
