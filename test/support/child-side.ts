// For the file that runs as a child: the other end of child.ts.
import type { Message } from './child.ts';

/** Tells the test; resolves when it is on its way. */
export function say(type: string, fields: Readonly<Record<string, unknown>> = {}): Promise<void> {
  return new Promise((resolve, reject) => {
    if (process.send === undefined) {
      process.stdout.write(`${JSON.stringify({ type, ...fields })}\n`); // started by hand
      resolve();
    } else {
      process.send({ type, ...fields }, undefined, undefined, (error) => (error ? reject(error) : resolve()));
    }
  });
}

const unread: Message[] = [];
const waiters = new Set<() => void>();

process.on('message', (message) => {
  unread.push(message as Message);
  for (const wake of waiters) wake();
  waiters.clear();
});
process.channel?.unref(); // a child that is done ends; only one that waits for us stays

/** The next message of this type from the test. */
export async function heard<T extends object = Message>(type: string): Promise<T> {
  for (;;) {
    const index = unread.findIndex((message) => message.type === type);
    if (index >= 0) return unread.splice(index, 1)[0] as T;
    process.channel?.ref();
    await new Promise<void>((wake) => {
      waiters.add(wake);
    });
    process.channel?.unref();
  }
}
