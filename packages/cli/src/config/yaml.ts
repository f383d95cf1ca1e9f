import {
  Composer,
  isAlias,
  isMap,
  isScalar,
  isSeq,
  Lexer,
  LineCounter,
  Parser,
  visit,
  type Alias,
  type CST,
  type Document,
  type ParsedNode,
  type YAMLMap,
} from 'yaml';

import type { Path, Place, Problem } from './problem.ts';
import { pathText, shorten } from './problem.ts';
import { FORBIDDEN_KEYS, MAX_DEPTH, MAX_VALUES, type Raw, type Source } from './source.ts';
import { explain } from './yaml-errors.ts';

/** Of the parser's stack, which has up to three entries for a level. */
const MAX_STACK = 4 * MAX_DEPTH;
/** Words and marks. Bounds the work that a file can make to a second or two. */
const MAX_TOKENS = 200_000;

/** Reads YAML 1.2. `source` learns where everything is. */
export function readYaml(text: string, source: Source): Raw {
  const lines = new LineCounter();
  lines.addNewLine(0);
  const placeAt = (offset: number): Place => {
    const { line, col } = lines.linePos(offset);
    return { line: Math.max(line, 1), column: Math.max(col, 1) };
  };
  const at = (offset: number, message: string, remedy?: string): Problem => ({
    ...source.problem([], message, remedy),
    ...placeAt(offset),
  });
  const tokens = tokensOf(text, lines);
  if (!Array.isArray(tokens)) return { value: undefined, problems: [at(tokens.offset, tokens.message, tokens.remedy)] };
  const composer = new Composer({ lineCounter: lines, prettyErrors: false, keepSourceTokens: true, uniqueKeys: false });
  const [document, second] = [...composer.compose(tokens, true, text.length)];
  if (document === undefined) return { value: undefined, problems: [] };
  const problems = explain(text, [...document.errors, ...document.warnings], (offset) =>
    openedAt(document, offset),
  ).map(({ offset, message, remedy }) => at(offset, message, remedy));
  if (second !== undefined) {
    const offset = second.range[0];
    problems.push(at(offset, 'begins a second document', 'write one config in one file, without ---'));
  }
  if (document.directives.yaml.version !== '1.2') {
    problems.push(at(0, 'asks for another YAML than 1.2', 'remove the line with %YAML'));
  }
  if (problems.length > 0) return { value: undefined, problems };
  const walker = new Walker(document, source, placeAt);
  const value = walker.plain(document.contents, [], 0, undefined);
  return { value: walker.stopped ? undefined : value, problems: walker.problems, unread: walker.unread };
}

/** Where the text begins that goes on until there. */
function openedAt(document: Document.Parsed, offset: number): number | undefined {
  let found: number | undefined;
  visit(document, {
    Scalar: (_, { range, type }) => {
      if (range && type?.startsWith('QUOTE') && range[0] < offset && range[2] >= offset) found = range[0];
    },
  });
  return found;
}

interface Refusal {
  readonly offset: number;
  readonly message: string;
  readonly remedy?: string;
}

/** Guards what comes after, which is recursive, and would end the process rather than throw. */
function tokensOf(text: string, lines: LineCounter): CST.Token[] | Refusal {
  const parser = new Parser(lines.addNewLine);
  const tokens: CST.Token[] = [];
  let count = 0;
  for (const lexeme of new Lexer().lex(text)) {
    tokens.push(...parser.next(lexeme));
    if (parser.stack.length > MAX_STACK) {
      return { offset: parser.offset, message: `is nested too deeply: more than ${MAX_DEPTH} levels` };
    }
    if (++count > MAX_TOKENS) return { offset: parser.offset, message: 'has too many values to be a config' };
  }
  tokens.push(...parser.end());
  return tokens;
}

/** Makes plain values of nodes, and counts, because aliases can repeat each other without an end. */
class Walker {
  readonly problems: Problem[] = [];
  readonly unread = new Set<string>();
  readonly #document: Document.Parsed;
  readonly #source: Source;
  readonly #placeAt: (offset: number) => Place;
  #values = 0;
  stopped = false;

  constructor(document: Document.Parsed, source: Source, placeAt: (offset: number) => Place) {
    this.#document = document;
    this.#source = source;
    this.#placeAt = placeAt;
  }

  plain(node: ParsedNode | null, path: Path, depth: number, key: Place | undefined): unknown {
    if (this.stopped || node === null) return null;
    const value = this.#placeAt(node.range[0]);
    this.#source.put(path, { key, value });
    if (++this.#values > MAX_VALUES) return this.#stop(path, 'has too many values to be a config, aliases counted in');
    if (depth > MAX_DEPTH) return this.#stop(path, `is nested too deeply: more than ${MAX_DEPTH} levels`);
    if (isAlias(node)) return this.#aliased(node, path, depth, key);
    if (isScalar(node)) return node.value;
    if (isSeq(node)) {
      return node.items.map((item, index) => this.plain(item, [...path, index], depth + 1, undefined));
    }
    return isMap(node) ? this.#map(node, path, depth) : null;
  }

  #aliased(node: Alias.Parsed, path: Path, depth: number, key: Place | undefined): unknown {
    const target = node.resolve(this.#document) as ParsedNode | undefined;
    if (target !== undefined) return this.plain(target, path, depth + 1, key);
    this.unread.add(pathText(path));
    const isSchedule = !/^\w/.test(node.source);
    const remedy = isSchedule
      ? `quote the text: '*${shorten(node.source)}'`
      : `quote it if it is a text: '*${node.source}'`;
    this.problems.push(
      this.#source.problem(path, `refers to an anchor &${shorten(node.source)} that is not there`, remedy),
    );
    return null;
  }

  #map(node: YAMLMap.Parsed, path: Path, depth: number): Readonly<Record<string, unknown>> {
    const plain: Record<string, unknown> = {};
    for (const { key, value } of node.items) {
      const place = this.#placeAt(key.range[0]);
      if (!isScalar(key)) {
        const message = 'has a key that is no text';
        this.problems.push({ ...this.#source.problem(path, message, 'quote a text that has { } [ ] in it'), ...place });
        this.unread.add(pathText(path));
        continue;
      }
      // As it is written: 0x10 and 16 are two names.
      const name = typeof key.value === 'string' ? key.value : (key.source ?? String(key.value));
      const at = [...path, name];
      const spot = { key: place, value: place };
      if (FORBIDDEN_KEYS.has(name)) {
        this.#source.put(at, spot);
        this.problems.push(this.#source.problem(at, 'is a key that is not allowed', 'choose another name', 'key'));
      } else if (Object.hasOwn(plain, name)) {
        const first = this.#source.problem(at, '', undefined, 'key');
        this.problems.push({
          ...first,
          ...place,
          message: `is there twice, first in line ${first.line}`,
          remedy: 'remove or rename one',
        });
      } else {
        this.#source.put(at, spot);
        plain[name] = this.plain(value, at, depth + 1, place);
      }
    }
    return plain;
  }

  #stop(path: Path, message: string): null {
    this.stopped = true;
    this.problems.push(this.#source.problem(path, message));
    return null;
  }
}
