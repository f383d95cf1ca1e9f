import { escapeText } from './escape.ts';

/** So many letters of 11 pixels go on a line of a picture that is 1,000 wide. */
export const LETTERS = 145;

export function svgLine(x1: number, y1: number, x2: number, y2: number, colour: string): string {
  return `<line x1="${x1}" y1="${y1}" x2="${x2}" y2="${y2}" stroke="${colour}"/>`;
}

/** Cut where the picture ends. */
export function svgText(x: number, y: number, content: string, attributes = '', most = LETTERS): string {
  const safe = escapeText(content);
  const shown = safe.length > most ? `${safe.slice(0, most - 1).replace(/[\uD800-\uDBFF]$/, '')}…` : safe;
  return `<text x="${rounded(x)}" y="${y}"${attributes === '' ? '' : ` ${attributes}`}>${xml(shown)}</text>`;
}

export function rounded(pixels: number): number {
  return Math.round(pixels * 10) / 10;
}

const ENTITIES: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
};

/** Text for XML, which has no room for controls, however written, nor for two characters that are none. */
export function xml(content: string): string {
  return escapeText(content)
    .replace(/[\uFFFE\uFFFF]/g, '\uFFFD')
    .replace(/[&<>"']/g, (char) => ENTITIES[char] ?? char);
}
