import { closest, distance } from 'fastest-levenshtein';

/** Which of these was meant, or undefined if the word resembles none. Case does not count. */
export function nearest(word: string, known: readonly string[]): string | undefined {
  // The distance is quadratic work, and nobody mistypes by so much.
  if (known.length === 0 || word.length > 64) return undefined;
  const lower = known.map((name) => name.toLowerCase());
  const found = closest(word.toLowerCase(), lower);
  const isNear = distance(word.toLowerCase(), found) <= Math.max(1, Math.floor(found.length / 3));
  return isNear ? known[lower.indexOf(found)] : undefined;
}
