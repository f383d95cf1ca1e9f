// The main module of a process that a drill starts: one owner.
import { OwnerActor } from './owner-actor.ts';
import type { FromOwner, ToOwner } from './messages.ts';

if (process.send === undefined) throw new Error('this is for a child process');

function tell(message: FromOwner): void {
  process.send?.(message, undefined, undefined, () => {});
}

function fail(error: unknown): void {
  tell({ type: 'failed', message: error instanceof Error ? error.message : String(error) });
}

let opening: Promise<OwnerActor> | undefined;

process.on('message', (message: ToOwner) => {
  if (message.type === 'set-up') {
    opening = OwnerActor.open(message.setup, tell);
    opening.then(() => tell({ type: 'ready' }), fail);
  } else {
    void opening?.then((actor) => actor.hear(message)).catch(fail);
  }
});
process.on('uncaughtException', fail);

// The drill is gone, whatever has ended it: so are its owners.
process.on('disconnect', () => process.kill(process.pid, 'SIGKILL'));
