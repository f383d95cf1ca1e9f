import type { Machine, Ran } from '../../scripts/services/machine.mjs';

export interface FakeMachineOptions {
  readonly platform?: string;
  readonly env?: Record<string, string>;
  /** Path of each program and what it prints for --version; null: it does not run. */
  readonly programs?: Record<string, string | null>;
  readonly files?: readonly string[];
  /** Answers commands; may add programs and files. */
  readonly run?: (this: FakeMachine, line: string, cwd: string | undefined) => Partial<Ran> | undefined;
}

/** A machine that has only what is written here. */
export class FakeMachine implements Machine {
  readonly platform: string;
  readonly env: Record<string, string | undefined>;
  readonly programs: Map<string, string | null>;
  readonly files: Set<string>;
  readonly ran: string[] = [];
  readonly #run: FakeMachineOptions['run'];

  constructor({ platform = 'linux', env = {}, programs = {}, files = [], run }: FakeMachineOptions) {
    this.platform = platform;
    this.env = { PATH: '/usr/local/bin:/usr/bin', ...env };
    this.programs = new Map(Object.entries(programs));
    this.files = new Set(files);
    this.#run = run;
  }

  isFile = (path: string): boolean => this.files.has(path) || this.programs.has(path);
  isExecutable = (path: string): boolean => this.programs.has(path);
  version = (path: string): string | null => this.programs.get(path) ?? null;

  list = (folder: string): string[] => {
    const inside = [...this.files, ...this.programs.keys()].filter((path) => path.startsWith(`${folder}/`));
    return [...new Set(inside.map((path) => path.slice(folder.length + 1).split('/')[0] ?? ''))].toSorted();
  };

  run = async (command: string, args: readonly string[], { cwd }: { cwd?: string } = {}): Promise<Ran> => {
    const line = [command, ...args].join(' ');
    this.ran.push(line);
    return { ok: true, output: '', errors: '', ...this.#run?.(line, cwd) };
  };
}
