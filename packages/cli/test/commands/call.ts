import { Readable } from 'node:stream';
import { main } from '../../src/program.ts';

export interface Called {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

interface Terminal {
  readonly columns?: number;
  readonly env?: Readonly<Record<string, string>>;
}

/** One command line, in this process. With `columns` its standard output is a terminal. */
export async function call(args: readonly string[], { columns, env = {} }: Terminal = {}): Promise<Called> {
  const texts = { stdout: '', stderr: '' };
  const code = await main(args, {
    env,
    stdin: Readable.from([]),
    stdout: {
      ...(columns !== undefined && { isTTY: true, columns }),
      write: (text) => void (texts.stdout += text),
    },
    stderr: { write: (text) => void (texts.stderr += text) },
  });
  return { code, ...texts };
}
