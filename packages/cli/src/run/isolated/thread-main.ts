// The main module of a thread that runs the handler of one job.
import { parentPort, workerData } from 'node:worker_threads';

import type { Beginning, FromHandler, Keyed, ToHandler } from './messages.ts';
import { ServedHandler } from './served-handler.ts';

if (parentPort === null) throw new Error('this is for a thread');
const port = parentPort;

const { data, key } = workerData as Beginning;

const served = await ServedHandler.open(data, (message) => {
  port.postMessage({ key, message } satisfies Keyed<FromHandler>);
});
port.on('message', (message: ToHandler) => served.heard(message));
