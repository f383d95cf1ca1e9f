import { chmodSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

import { guardedFolder, removeFolder } from '../../scripts/services/guard.mjs';

/** Stands for a command-line tool that is not here, or has no server here. */
export interface FakeTool {
  readonly command: string;
  /** The arguments that it was called with, each time; throws if it was not called. */
  calls(): string[];
}

/** A folder for such tools, removed when it is disposed. */
export class FakeTools implements Disposable {
  readonly folder: string = guardedFolder('tools');
  #count = 0;

  /** `body`: the rest of it, for sh. With a name it is found by that where `folder` is the PATH. */
  tool(body: string, name = `tool-${++this.#count}`): FakeTool {
    const command = join(this.folder, name);
    writeFileSync(command, `#!/bin/sh\necho "$@" >> ${command}.log\n${body}\n`);
    chmodSync(command, 0o755);
    return { command, calls: () => readFileSync(`${command}.log`, 'utf8').trim().split('\n') };
  }

  [Symbol.dispose](): void {
    removeFolder(this.folder);
  }
}

/** A body that prints it as it is. */
export function printing(text: string): string {
  return `cat <<'END'\n${text}\nEND`;
}
