// The beginning of a checkpoint's digest, as links have it.
import type { Checkpoint } from 'espalier'

/** Twelve digits tell apart what one has. */
const LENGTH = 12

/** Undefined for a format without hashes. */
export function shortDigest({ digest }: Pick<Checkpoint, 'digest'>): string | undefined {
  return digest?.slice(0, LENGTH)
}
