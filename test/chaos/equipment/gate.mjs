// The only process of a network that is not the one on the island: leads each of its ports to a socket in the file system.
import { once } from 'node:events';
import { connect, createServer } from 'node:net';

for (const way of process.argv.slice(2)) {
  const [port, path = ''] = way.split('=');
  const server = createServer({ noDelay: true }, (from) => {
    const to = connect({ path });
    lead(from, to);
    lead(to, from);
  }).listen(Number(port), '0.0.0.0');
  await once(server, 'listening');
}
process.stdout.write('ready\n');

/** @param {import('node:net').Socket} one @param {import('node:net').Socket} other */
function lead(one, other) {
  one.on('error', () => {}); // `close` follows
  one.on('close', () => other.destroy());
  one.pipe(other);
}
