// One line per step of a long command, with the time it took.
import { performance } from 'node:perf_hooks';

/**
 * Says what is being done, does it, says how long it took. What `work` returns, if a text, is said too.
 *
 * @param {string} title
 * @param {() => Promise<string | void> | string | void} work
 */
export async function step(title, work) {
  const begin = performance.now();
  const elapsed = () => `${((performance.now() - begin) / 1000).toFixed(1)} s`;
  const inPlace = process.stdout.isTTY && !process.env['CI'];
  if (inPlace) process.stdout.write(`  … ${title}`);
  const end = (/** @type {string} */ mark, /** @type {string} */ more = '') =>
    process.stdout.write(`${inPlace ? '\r\x1b[K' : ''}  ${mark} ${title}${more} (${elapsed()})\n`);
  try {
    const said = await work();
    end('✓', said ? `: ${said}` : '');
  } catch (error) {
    end('✗');
    throw error;
  }
}
