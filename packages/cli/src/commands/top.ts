import { setTimeout as sleep } from 'node:timers/promises';
import type { LeaseInfo, Logger } from '@leasehold/core';
import { type Command, Option } from 'commander';
import { describeTarget } from '../connection.ts';
import { CliError, EXIT, exitOfSignal } from '../exit.ts';
import type { Io } from '../output/io.ts';
import { Screen } from '../output/screen.ts';
import { topFrame } from '../output/top-frame.ts';
import { durationFlag } from './flags.ts';
import { matcher } from './pattern.ts';
import { outputOf, withLeases, type Connected, type Session } from './session.ts';
import { onSignals } from './signals.ts';

interface TopFlags {
  readonly interval: string;
}

/** Oftener would be work for the store and nothing for the reader. */
const LEAST_MS = 100;
/** Its lines would be written over the picture. What it says is in the picture. */
const SILENT: Logger = { debug() {}, info() {}, warn() {}, error() {} };

export function addTop(program: Command, session: Session): Command {
  return program
    .command('top')
    .summary('live view of who owns what')
    .description(
      'Shows what ls shows, again and again, on the whole of a terminal: the most trouble first. q and Ctrl-C end it, / filters by a part of the resource or of the owner, Esc shows all again.',
    )
    .argument('[pattern]', "names to list, with * and ?; quote it: 'customer:*'")
    .addOption(
      new Option('-n, --interval <duration>', 'how long to wait before asking again, 100ms or more')
        .argParser(durationFlag)
        .default('1s'),
    )
    .action(async (pattern: string | undefined, { interval }: TopFlags, command: Command) => {
      checkTerminal(session.io, outputOf(session, command).isJson);
      const { parseDuration } = await import('@leasehold/core');
      const everyMs = parseDuration('interval', interval === '0' ? 0 : interval);
      if (everyMs < LEAST_MS) throw new CliError(EXIT.usage, `--interval ${interval} is less than ${LEAST_MS} ms`);
      const isNamed = pattern === undefined ? () => true : matcher(pattern);
      await withLeases(session, command, (connected) => watch(session, connected, isNamed, everyMs), {
        logger: SILENT,
      });
    });
}

/** Somebody has to read it, and to end it. */
function checkTerminal({ stdin, stdout, env }: Io, isJson: boolean): void {
  const next = 'leasehold ls';
  if (isJson) throw new CliError(EXIT.usage, 'top is a view for people, without JSON', `${next} --json`);
  if (stdin.isTTY !== true || stdout.isTTY !== true) throw new CliError(EXIT.usage, 'top needs a terminal', next);
  if (env['TERM'] === 'dumb') throw new CliError(EXIT.usage, 'top needs a terminal that can move its cursor', next);
}

async function watch(
  session: Session,
  { leases, target, output }: Connected,
  isNamed: (resource: string) => boolean,
  everyMs: number,
): Promise<void> {
  const end = new AbortController();
  const ended = new Promise<void>((resolve) => end.signal.addEventListener('abort', () => resolve(), { once: true }));
  const view = {
    target: describeTarget(target),
    at: new Date(),
    // The first answer before the screen is taken: an error is told as those of other commands.
    leases: await read(),
    filter: '',
    isTyping: false,
    trouble: undefined as { readonly message: string; readonly sinceMs: number } | undefined,
  };
  let failure: unknown;
  let drawing = Promise.resolve();
  using screen = new Screen(session.io, { onKey, onResize: redraw });
  using _signals = onSignals((signal) => {
    session.exit = exitOfSignal(signal);
    end.abort();
  });
  while (!end.signal.aborted) {
    redraw();
    await sleep(everyMs, undefined, { signal: end.signal }).catch(() => {});
    if (!end.signal.aborted) await Promise.race([refresh(), ended]);
  }
  await drawing;
  if (failure !== undefined) throw failure as Error;

  async function read(): Promise<readonly LeaseInfo[]> {
    const found: LeaseInfo[] = [];
    for await (const info of leases.list()) if (isNamed(info.resource)) found.push(info);
    return found;
  }

  async function refresh(): Promise<void> {
    try {
      view.leases = await read();
      view.at = new Date();
      view.trouble = undefined;
    } catch (error) {
      view.trouble = { message: (error as Error).message, sinceMs: Date.now() - view.at.getTime() };
    }
  }

  /** One picture after the other: each is measured before it is drawn. */
  function redraw(): void {
    drawing = drawing
      .then(async () => {
        if (end.signal.aborted) return;
        const { width, height } = screen.size;
        const lines = await topFrame(view, { width, height, style: output.style });
        if (!end.signal.aborted) screen.draw(lines);
      })
      .catch((error: unknown) => {
        failure = error;
        end.abort();
      });
  }

  function onKey(name: string, text: string): void {
    if (name === 'ctrl-c') {
      session.exit = EXIT.interrupted;
      return end.abort();
    }
    if (view.isTyping) typed(name, text);
    else if (text === 'q') return end.abort();
    else if (text === '/') Object.assign(view, { isTyping: true, filter: '' });
    else if (name === 'escape') view.filter = '';
    redraw();
  }

  function typed(name: string, text: string): void {
    if (name === 'return' || name === 'enter') view.isTyping = false;
    else if (name === 'escape') Object.assign(view, { isTyping: false, filter: '' });
    else if (name === 'backspace') view.filter = Array.from(view.filter).slice(0, -1).join('');
    else view.filter += text;
  }
}
