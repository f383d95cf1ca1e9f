import { once } from 'node:events';
import { connect, createServer } from 'node:net';

/** A loopback port that was free a moment ago; who binds it must be ready to try another. */
export async function freePort() {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = /** @type {import('node:net').AddressInfo} */ (server.address());
  server.close();
  await once(server, 'close');
  return port;
}

/**
 * Sends `text` and gives the first bytes that come back, or null if the other side does not answer.
 *
 * @param {number} port
 * @param {string} text
 * @param {{ timeoutMs?: number, until?: RegExp }} [options]
 * @returns {Promise<string | null>}
 */
export function ask(port, text, { timeoutMs = 1_000, until = /\n/ } = {}) {
  return new Promise((resolve) => {
    const socket = connect({ port, host: '127.0.0.1' });
    let reply = '';
    const settle = (/** @type {string | null} */ value) => {
      socket.destroy();
      resolve(value);
    };
    socket.setTimeout(timeoutMs, () => settle(null));
    socket.on('error', () => settle(null));
    socket.on('close', () => settle(reply === '' ? null : reply));
    socket.on('data', (bytes) => {
      reply += bytes.toString('latin1');
      if (until.test(reply)) settle(reply);
    });
    socket.write(Buffer.from(text, 'latin1'));
  });
}
