import { once } from 'node:events';
import { createServer, type AddressInfo, type Socket } from 'node:net';

/**
 * A server that accepts connections and answers each command (its name in small letters) as told: for versions that cannot be installed and for what
 * no real server does. `undefined` is silence.
 */
export async function fakeRedis(answer: (command: readonly string[]) => string | undefined) {
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on('error', () => {});
    socket.on('close', () => sockets.delete(socket));
    socket.on('data', (bytes) => {
      // Commands arrive whole: they are short and on loopback.
      for (const text of bytes.toString().split(/(?=\*\d+\r\n\$)/)) {
        const [name = '', ...args] = text.split('\r\n').filter((_, index) => index > 0 && index % 2 === 0);
        const reply = answer([name.toLowerCase(), ...args]);
        if (reply !== undefined) socket.write(reply);
      }
    });
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `redis://127.0.0.1:${(server.address() as AddressInfo).port}`,
    [Symbol.asyncDispose]: async () => {
      for (const socket of sockets) socket.destroy();
      server.close();
      await once(server, 'close');
    },
  };
}

export const bulk = (text: string): string => `$${Buffer.byteLength(text)}\r\n${text}\r\n`;
