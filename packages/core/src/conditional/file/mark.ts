import { ConfigError } from '../../errors.ts';
import { show } from '../../show.ts';
import { readIfThere } from './files.ts';
import type { FilePlace } from './place.ts';

/** The highest grant that was admitted; its file is `<path>.fence`. */
export interface Mark {
  readonly fencingToken: number;
  /** Null when sealed by hand. */
  readonly leaseId: string | null;
}

/**
 * Null if there is none. What is no mark admits nobody: half a mark may have been any mark. Throws `ConfigError` for the
 * mark of another resource.
 */
export async function readMark(place: FilePlace): Promise<Mark | null> {
  const text = await readIfThere(place.mark);
  if (text === null) return null;
  const found = parse(text.toString());
  if (found === null) {
    throw place.unavailable(
      `${place.mark} is not a mark of a fence, or not a whole one; put back what was there, or remove it and seal ${show(place.resource)}`,
    );
  }
  const { resource, fencingToken, leaseId } = found;
  if (resource === place.resource) return { fencingToken, leaseId };
  throw new ConfigError(
    'path',
    `${place.data} belongs to ${show(resource)}, so ${show(place.resource)} needs a file of its own`,
  );
}

/** The content of the file of a mark. */
export function markText({ resource }: FilePlace, { fencingToken, leaseId }: Mark): string {
  return `${JSON.stringify({ leasehold: 1, resource, fencingToken, leaseId })}\n`;
}

function parse(text: string): (Mark & { readonly resource: string }) | null {
  let mark: Partial<Record<'leasehold' | 'resource' | keyof Mark, unknown>> | null;
  try {
    mark = JSON.parse(text) as typeof mark;
  } catch {
    return null;
  }
  const isSound =
    typeof mark === 'object' &&
    mark !== null &&
    mark.leasehold === 1 &&
    typeof mark.resource === 'string' &&
    Number.isSafeInteger(mark.fencingToken) &&
    (mark.fencingToken as number) >= 1 &&
    (mark.leaseId === null || (typeof mark.leaseId === 'string' && mark.leaseId !== ''));
  return isSound ? (mark as unknown as Mark & { resource: string }) : null;
}
