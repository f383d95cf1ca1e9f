// Runs the program that a command is about, as if it were the command itself.
import { once } from 'node:events';

import { cleanUp, spawnGuarded } from '../services/guard.mjs';

const codes = { SIGHUP: 129, SIGINT: 130, SIGTERM: 143 };

/**
 * Calls `body`; whatever happens, also Ctrl-C in mid-work, everything that was started is ended and removed before this
 * process exits with the code that `body` gave.
 *
 * @param {(stopping: AbortSignal) => Promise<number>} body
 */
export async function command(body) {
  const stopping = new AbortController();
  let code = 0;
  for (const name of /** @type {(keyof typeof codes)[]} */ (Object.keys(codes))) {
    process.on(name, () => {
      code = codes[name];
      stopping.abort(name);
    });
  }
  // npm can be killed without a word to us. Then nobody reads our output or waits for us.
  const { npm_lifecycle_event: byNpm } = process.env;
  const parent = process.ppid;
  const orphaned = setInterval(() => {
    if (byNpm !== undefined && process.ppid !== parent && !stopping.signal.aborted) {
      code = codes.SIGHUP;
      stopping.abort('SIGTERM');
    }
  }, 500).unref();

  let result = 1;
  try {
    const stopped = once(stopping.signal, 'abort').then(() => -1);
    // A program in the foreground gets the signal itself, and is awaited; any other work is left where it stands.
    result = await Promise.race([body(stopping.signal), stopped]);
    if (result === -1 && foreground !== null) await foreground;
  } catch (error) {
    const { message } = /** @type {Error} */ (error);
    if (!stopping.signal.aborted) process.stderr.write(`\n${message}\n`);
  }
  clearInterval(orphaned);
  await cleanUp();
  process.exit(stopping.signal.aborted ? code : result);
}

/** @type {Promise<unknown> | null} */
let foreground = null;

/**
 * Runs a Node program with our terminal, passes signals on to it once (it is in a process group of its own, so Ctrl-C does
 * not reach it twice) and gives its exit code.
 *
 * @param {readonly string[]} args of node
 * @param {{ env: NodeJS.ProcessEnv, cwd: string, stopping: AbortSignal, patienceMs?: number }} options
 */
export async function runNode(args, { env, cwd, stopping, patienceMs = 15_000 }) {
  const child = spawnGuarded(process.execPath, args, { env, cwd, stdio: 'inherit', group: true });
  const exit = once(child, 'exit');
  foreground = exit;
  /** @type {NodeJS.Timeout | undefined} */
  let timer;
  const passOn = () => {
    child.kill(stopping.reason);
    timer = setTimeout(() => child.kill('SIGKILL'), patienceMs);
  };
  if (stopping.aborted) passOn();
  else stopping.addEventListener('abort', passOn, { once: true });
  const [code] = await exit;
  clearTimeout(timer);
  stopping.removeEventListener('abort', passOn);
  return /** @type {number | null} */ (code) ?? 1;
}
