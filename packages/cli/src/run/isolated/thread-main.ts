// The main module of a thread that runs the handler of one job.
import { parentPort, workerData } from 'node:worker_threads';

import type { HandlerData, ToHandler } from './messages.ts';
import { ServedHandler } from './served-handler.ts';

if (parentPort === null) throw new Error('this is for a thread');
const port = parentPort;

const served = await ServedHandler.open(workerData as HandlerData, (message) => port.postMessage(message));
port.on('message', (message: ToHandler) => served.heard(message));
