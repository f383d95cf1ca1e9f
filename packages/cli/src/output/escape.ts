// What the store holds was written by others: a name must not move the cursor, end a line, or turn the text around it.
// Controls, line and paragraph separators, half surrogate pairs, and the marks that change the direction of writing.
const HOSTILE = /[\p{Cc}\p{Zl}\p{Zp}\p{Surrogate}\u061c\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff]/gu;

const SHORT: Readonly<Record<string, string>> = { '\n': '\\n', '\r': '\\r', '\t': '\\t' };

/** Text on one line that a terminal only prints. What could do more is shown as `\u{1b}`. */
export function escapeText(text: string): string {
  return text.replace(HOSTILE, (char) => SHORT[char] ?? `\\u{${(char.codePointAt(0) ?? 0).toString(16)}}`);
}

/** The same JSON, without a character that a terminal obeys: there are none of them outside of its texts. */
export function escapeJson(json: string): string {
  return json.replace(HOSTILE, (char) => `\\u${(char.codePointAt(0) ?? 0).toString(16).padStart(4, '0')}`);
}
