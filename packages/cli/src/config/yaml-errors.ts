import type { YAMLError } from 'yaml';

import { shorten } from './problem.ts';

interface Explained {
  readonly offset: number;
  readonly message: string;
  readonly remedy?: string;
}

/** As many as anybody reads; finding the line of each costs time. */
const MAX_ERRORS = 500;

/** A value that begins with a mark of YAML, after a key or a dash: the mark, and the text up to a comment or the next key. */
const UNQUOTED = /(?:^|[\s{,[])(?:[^\s'"#]+:|-)\s+((?:[*@`%&!|>]).*)$/;
/** A brace in a text that is not quoted, within a map in braces. */
const BRACES = /(?:^|[\s{,])[\w-]+:\s+([^\s'"{[,]*\$?\{[^'"\s]*\})/;

/**
 * What the errors of the parser mean for somebody who writes a config, with their offsets. One for each line, because those after the first
 * are consequences; and the texts of the parser do not quote the file, which may hold passwords.
 */
export function explain(
  text: string,
  errors: readonly YAMLError[],
  openedAt: (offset: number) => number | undefined,
): readonly Explained[] {
  const lines = new Set<number>();
  const explained: Explained[] = [];
  for (const error of [...errors].sort((a, b) => a.pos[0] - b.pos[0]).slice(0, MAX_ERRORS)) {
    const [offset] = error.pos;
    const start = text.lastIndexOf('\n', offset - 1) + 1;
    const isTab = error.code === 'TAB_AS_INDENT';
    // Whoever indents with tabs does so everywhere.
    const where = isTab ? -1 : start;
    if (lines.has(where)) continue;
    lines.add(where);
    const found = explainOne(error, text, start, openedAt);
    explained.push(found);
    // What is open to the end of the file swallows the rest.
    if (!isIndependent(error)) break;
  }
  return explained;
}

function isIndependent({ code, message }: YAMLError): boolean {
  return (
    ['BAD_ALIAS', 'BAD_SCALAR_START', 'TAB_AS_INDENT', 'TAG_RESOLVE_FAILED', 'BAD_DQ_ESCAPE'].includes(code) ||
    message.includes('alias')
  );
}

function explainOne(
  error: YAMLError,
  text: string,
  start: number,
  openedAt: (offset: number) => number | undefined,
): Explained {
  const [offset] = error.pos;
  const line = text.slice(start, endOfLine(text, start));
  switch (error.code) {
    case 'TAB_AS_INDENT':
      return { offset, message: 'is indented with a tab', remedy: 'indent with spaces, here and in all lines' };
    case 'TAG_RESOLVE_FAILED':
      return {
        offset,
        message: `has the tag ${shorten(/^\S+/.exec(text.slice(offset))?.[0] ?? '!')}`,
        remedy: 'write plain values; a text that begins with ! is quoted',
      };
    case 'MISSING_CHAR':
      if (!error.message.endsWith('quote')) break;
      return {
        offset: openedAt(offset) ?? offset,
        message: 'begins with a quote that is not closed',
        remedy: 'close it',
      };
    default:
  }
  const unquoted = UNQUOTED.exec(line)?.[1];
  if (unquoted !== undefined) return explainMark(unquoted, start + line.lastIndexOf(unquoted));
  const braces = BRACES.exec(line)?.[1];
  if (braces !== undefined) {
    const remedy = `quote a text that has { } in it: '${shorten(braces)}'`;
    return { offset: start + line.indexOf(braces), message: 'has braces that YAML takes for a map', remedy };
  }
  if (error.message.startsWith('Nested mappings')) {
    return { offset, message: "has a second ': ' in one line", remedy: "quote a text that has ': ' in it" };
  }
  return { offset, message: `is no YAML: ${lowerFirst(error.message)}` };
}

function explainMark(unquoted: string, offset: number): Explained {
  const mark = unquoted.charAt(0);
  const value = /^.*?(?=\s+#|,\s|,?\s*[}\]]\s*$|\s*$)/.exec(unquoted)?.[0] ?? unquoted;
  if (mark === '*') {
    const message = 'is not quoted, and YAML has another use for *';
    return { offset, message, remedy: `quote the schedule: '${shorten(value)}'` };
  }
  return {
    offset,
    message: `begins with ${mark}, which means something else in YAML`,
    remedy: `quote it: '${shorten(value)}'`,
  };
}

function endOfLine(text: string, start: number): number {
  const end = text.indexOf('\n', start);
  return end < 0 ? text.length : end;
}

function lowerFirst(text: string): string {
  return text.charAt(0).toLowerCase() + text.slice(1);
}
