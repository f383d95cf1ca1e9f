import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

import { closed, opened } from '../support/leftovers.ts';

export interface SeenRequest {
  readonly method: string;
  readonly path: string;
  readonly headers: IncomingMessage['headers'];
  readonly body: string;
}

interface Reply {
  readonly status: number;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string;
}

/** `act` does what was asked for and gives the proper reply. Null ends the connection without one. */
export type Fault = (act: () => Reply, request: SeenRequest) => Reply | null | Promise<Reply | null>;

/**
 * As much of S3 as conditional requests need: GET, PUT with `If-Match` or `If-None-Match: *`, ETags that are the MD5 of the
 * body, and faults.
 */
export class ObjectServer implements AsyncDisposable {
  readonly requests: SeenRequest[] = [];
  /** For the next requests of a method, one each. */
  readonly faults: { readonly GET: Fault[]; readonly PUT: Fault[] } = { GET: [], PUT: [] };
  /** Conditions that are read over, as by stores that do not know them. */
  readonly ignored = new Set<'if-match' | 'if-none-match'>();
  readonly #objects = new Map<string, { readonly body: string; readonly type: string }>();
  readonly #late: (() => void)[] = [];
  readonly #server: Server;
  readonly #leftover;

  static async start(): Promise<ObjectServer> {
    const server = createServer();
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    return new ObjectServer(server);
  }

  private constructor(server: Server) {
    this.#server = server;
    this.#leftover = { what: 'object server', end: () => this.#close() };
    opened(this.#leftover);
    server.on('request', (request, response) => void this.#serve(request, response));
  }

  get origin(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  get(path: string): string | undefined {
    return this.#objects.get(path)?.body;
  }

  put(path: string, body: string): void {
    this.#objects.set(path, { body, type: 'text/plain' });
  }

  delete(path: string): void {
    this.#objects.delete(path);
  }

  etagOf(path: string): string | undefined {
    const body = this.get(path);
    return body === undefined ? undefined : etagOf(body);
  }

  /** A fault: the connection ends at once, and the request is carried out when `deliver` is called. */
  readonly late: Fault = (act) => {
    this.#late.push(() => void act());
    return null;
  };

  deliver(): void {
    for (const act of this.#late.splice(0)) act();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    closed(this.#leftover);
    await this.#close();
  }

  async #close(): Promise<void> {
    const over = once(this.#server, 'close');
    this.#server.close();
    this.#server.closeAllConnections();
    await over;
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const { method = '', url = '', headers } = request;
    // Clients add parameters of their own.
    const path = url.replace(/\?.*$/, '');
    const seen = { method, path, headers, body: Buffer.concat(chunks).toString() };
    this.requests.push(seen);
    const act = (): Reply => this.#act(seen);
    const fault = method === 'GET' || method === 'PUT' ? this.faults[method].shift() : undefined;
    const reply = await (fault === undefined ? act() : fault(act, seen));
    if (reply === null) request.socket.destroy();
    else response.writeHead(reply.status, reply.headers).end(reply.body ?? '');
  }

  #act({ method, path, headers, body }: SeenRequest): Reply {
    const now = this.#objects.get(path);
    if (method === 'GET') {
      if (now === undefined) return refusal(404, 'NoSuchKey');
      return { status: 200, headers: { etag: etagOf(now.body), 'content-type': now.type }, body: now.body };
    }
    if (method !== 'PUT') return refusal(405, 'MethodNotAllowed');
    const condition = (name: 'if-match' | 'if-none-match'): string | undefined =>
      this.ignored.has(name) ? undefined : headers[name];
    const [match, noneMatch] = [condition('if-match'), condition('if-none-match')];
    if (match !== undefined && now === undefined) return refusal(404, 'NoSuchKey');
    if (match !== undefined && now !== undefined && match !== etagOf(now.body)) {
      return refusal(412, 'PreconditionFailed');
    }
    if (noneMatch === '*' && now !== undefined) return refusal(412, 'PreconditionFailed');
    this.#objects.set(path, { body, type: headers['content-type'] ?? '' });
    return { status: 200, headers: { etag: etagOf(body) } };
  }
}

export const faults = {
  /** Carried out, and the connection ends without a reply. */
  loseAnswer: (act: () => Reply): null => (act(), null),
  loseRequest: (): null => null,
  /** Carried out, and answered as an error of the server. */
  failAfter: (act: () => Reply): Reply => (act(), refusal(500, 'InternalError')),
  /** S3, when another conditional request was under way. */
  conflict: (): Reply => refusal(409, 'ConditionalRequestConflict'),
  answer:
    (status: number, code = 'Code', headers: Readonly<Record<string, string>> = {}) =>
    (): Reply => ({ ...refusal(status, code), headers }),
  /** The proper reply, with other headers. */
  header:
    (name: string, value: string | null) =>
    (act: () => Reply): Reply => {
      const reply = act();
      const { [name]: _, ...rest } = reply.headers ?? {};
      return { ...reply, headers: value === null ? rest : { ...rest, [name]: value } };
    },
} as const;

function etagOf(body: string): string {
  return `"${createHash('md5').update(body).digest('hex')}"`;
}

function refusal(status: number, code: string): Reply {
  return { status, body: `<?xml version="1.0"?><Error><Code>${code}</Code><Message>no</Message></Error>` };
}
