const NEEDS_QUOTES = /[^A-Za-z0-9_./:=@%+,-]/;

/** One word of a POSIX shell's command line. */
export function quoteWord(word: string): string {
  return word === '' || NEEDS_QUOTES.test(word) ? `'${word.replaceAll("'", String.raw`'\''`)}'` : word;
}
