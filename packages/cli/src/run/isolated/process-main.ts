// The main module of a process that runs the handler of one job.
import { constants } from 'node:os';

import { plainOf, type FromProcess, type Keyed, type ToProcess } from './messages.ts';
import { ServedHandler } from './served-handler.ts';

if (process.send === undefined) throw new Error('this is for a child process');

let opening: Promise<ServedHandler> | undefined;
let served: ServedHandler | undefined;
let key: string | undefined;

/** Throws for what cannot be copied. Whether it arrives is the business of the parent, which may be gone. */
function tell(message: FromProcess, sent: () => void = () => {}): void {
  process.send?.({ key, message } satisfies Keyed<FromProcess>, undefined, undefined, sent);
}

/** What ends this process is the failure of the run. */
function fault(error: unknown): void {
  tell({ type: 'fault', error: plainOf(error) }, () => process.exit(1));
}

process.on('message', (message: ToProcess) => {
  if (message.type === 'begin') {
    key = message.key;
    opening = ServedHandler.open(message.data, tell);
    opening.then((opened) => (served = opened), fault);
  } else {
    void opening?.then(
      (opened) => opened.heard(message),
      () => {},
    );
  }
});
process.on('uncaughtException', fault);

// The parent is gone, whatever has ended it, and nobody keeps the lease of the run: this process ends, and all that it has started.
process.on('disconnect', () => {
  try {
    process.kill(-process.pid, 'SIGKILL');
  } finally {
    process.exit(1);
  }
});

// A supervisor may signal all processes at once. When runs end is decided by the parent: only what was told to end goes by a signal, unless the
// handler listens itself.
for (const signal of ['SIGTERM', 'SIGINT'] as const) {
  process.on(signal, () => {
    if (served?.isAborted && process.listenerCount(signal) === 1) process.exit(128 + constants.signals[signal]);
  });
}
