const TOKEN =
  /<(?<end>\/)?(?<name>[a-z][\w:.-]*)(?<attributes>(?:\s+[\w:.-]+="[^"<]*")*)\s*(?<empty>\/)?>|(?<text>[^<]+)/gy;
const NOT_ALLOWED = /[^\t\n\r\u0020-\uD7FF\uE000-\uFFFD\u{10000}-\u{10FFFF}]/u;
const LOOSE = /&(?!(?:amp|lt|gt|quot|#39);)/;

/** Throws for what no XML parser takes: an element that is not closed, a quote or a `<` where none may be, a character that is none. */
export function assertWellFormed(text: string): void {
  const bad = NOT_ALLOWED.exec(text) ?? LOOSE.exec(text) ?? /\]\]>/.exec(text);
  if (bad !== null) throw new Error(`at ${bad.index}: ${text.slice(bad.index, bad.index + 40)}`);
  const open: string[] = [];
  let roots = 0;
  let end = 0;
  for (const { index, 0: token, groups = {} } of text.matchAll(TOKEN)) {
    end = index + token.length;
    const { name, text: content } = groups;
    if (content !== undefined) {
      if (open.length === 0 && content.trim() !== '') throw new Error(`text outside: ${content}`);
      continue;
    }
    const names = Array.from((groups['attributes'] ?? '').matchAll(/([\w:.-]+)="/g), ([, its]) => its);
    if (new Set(names).size < names.length) throw new Error(`an attribute twice: ${token}`);
    if (groups['end'] !== undefined) {
      const last = open.pop();
      if (last !== name) throw new Error(`at ${index}: </${name}> closes <${last}>`);
    } else {
      if (open.length === 0) roots++;
      if (groups['empty'] === undefined && name !== undefined) open.push(name);
    }
  }
  if (end !== text.length) throw new Error(`at ${end}: ${text.slice(end, end + 40)}`);
  if (open.length > 0 || roots !== 1) throw new Error(`${roots} roots, left open: ${open.join(' ')}`);
}
