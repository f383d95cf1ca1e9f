import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';

import { ConfigError } from '@leasehold/core';
import type { Logger } from 'pino';

import type { Health } from './health.ts';
import type { Metrics } from './metrics.ts';

/** Where to listen; without a host on all addresses. */
export interface ListenAddress {
  readonly host: string | undefined;
  readonly port: number;
}

/** How long `/readyz` waits for the store. A probe is given up after a second, unless it says otherwise, and then hears no reason. */
const ANSWER_WITHIN_MS = 800;

/** `/livez`, `/readyz` and `/metrics`. Reads nothing of a request but its method and path. */
export class StatusServer {
  readonly #health: Health;
  readonly #metrics: Metrics;
  readonly #log: Logger;
  readonly #server: Server;

  constructor(health: Health, metrics: Metrics, log: Logger) {
    this.#health = health;
    this.#metrics = metrics;
    this.#log = log;
    this.#server = createServer({ requestTimeout: 10_000 }, (request, response) => {
      this.#answer(request, response).catch((err: unknown) => {
        this.#log.error({ err, url: request.url }, 'a request could not be answered');
        response.destroy();
      });
    });
  }

  /** The port that it listens on; 0 before. */
  get port(): number {
    const address = this.#server.address();
    return typeof address === 'object' && address !== null ? address.port : 0;
  }

  /** Rejects with `ConfigError` if that is not to be had. */
  listen({ host, port }: ListenAddress): Promise<void> {
    return new Promise((resolve, reject) => {
      const failed = (error: NodeJS.ErrnoException): void => {
        const where = `${host ?? ''}:${port}`;
        reject(
          new ConfigError('server.listen', `${where} cannot be listened on (${error.code}); choose another`, error),
        );
      };
      this.#server.once('error', failed);
      this.#server.listen({ port, ...(host === undefined ? {} : { host }) }, () => {
        this.#server.off('error', failed);
        this.#server.on('error', (err) => this.#log.error({ err }, 'the status server failed'));
        resolve();
      });
    });
  }

  async close(): Promise<void> {
    const closed = new Promise<void>((resolve) => this.#server.close(() => resolve()));
    this.#server.closeAllConnections();
    await closed;
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const path = request.url?.replace(/[?#].*$/s, '');
    if (request.method !== 'GET' && request.method !== 'HEAD') {
      return send(response, 405, 'text/plain', 'only GET and HEAD\n', { allow: 'GET, HEAD' });
    }
    switch (path) {
      // That it answers is the answer: the event loop turns. Not a word of the store, or an outage would restart the whole fleet.
      case '/livez':
        return send(response, 200, 'text/plain', 'ok\n');
      case '/readyz': {
        const readiness = await this.#health.readiness(ANSWER_WITHIN_MS);
        return send(response, readiness.status === 'ready' ? 200 : 503, 'application/json', json(readiness));
      }
      case '/metrics': {
        const { registry } = this.#metrics;
        return send(response, 200, registry.contentType, await registry.metrics());
      }
      default:
        return send(response, 404, 'text/plain', 'there are /livez, /readyz and /metrics\n');
    }
  }
}

function json(value: object): string {
  return `${JSON.stringify(value)}\n`;
}

function send(
  response: ServerResponse,
  status: number,
  type: string,
  body: string,
  headers: Readonly<Record<string, string>> = {},
): void {
  const length = Buffer.byteLength(body);
  response.writeHead(status, {
    'content-type': type,
    'content-length': length,
    'cache-control': 'no-store',
    ...headers,
  });
  response.end(body);
}
