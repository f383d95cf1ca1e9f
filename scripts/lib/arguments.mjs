// How a command of this repository reads its command line: at once, and what is wrong is said in words.

/**
 * What `read` makes of it. Ends the process if that is null, which asks how the command is used, or if it throws why not.
 *
 * @template T
 * @param {() => T | null} read
 * @param {string} usage
 * @returns {T}
 */
export function readOrExit(read, usage) {
  try {
    const given = read();
    if (given !== null) return given;
    process.stdout.write(`${usage}\n`);
    process.exit(0);
  } catch (error) {
    process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n${usage}\n`);
    process.exit(2);
  }
}
