/**
 * Whether a name matches a pattern of `*` (any characters, also none) and `?` (one). All other characters stand for
 * themselves. It takes no more than length times length steps, whatever the pattern.
 */
export function matcher(pattern: string): (name: string) => boolean {
  const wanted = Array.from(pattern);
  return (text) => {
    const name = Array.from(text);
    let at = 0;
    let star = -1;
    let resume = 0;
    for (let index = 0; index < name.length;) {
      if (wanted[at] === '*') {
        star = at++;
        resume = index;
      } else if (at < wanted.length && (wanted[at] === '?' || wanted[at] === name[index])) {
        at++;
        index++;
      } else if (star >= 0) {
        at = star + 1;
        index = ++resume;
      } else {
        return false;
      }
    }
    while (wanted[at] === '*') at++;
    return at === wanted.length;
  };
}
