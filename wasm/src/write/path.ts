// Prints key paths of trees that are not in the core yet.
import type { Key } from '../core/nodes.js'

/** The printed key path of some keys: section 10 of the format. */
export function printPath(keys: readonly Key[]): string {
  return keys.map(printSegment).join('/')
}

function printSegment(key: Key): string {
  if (typeof key !== 'string') return String(key)
  const escaped = key.replaceAll('~', '~0').replaceAll('/', '~1')
  // Text that reads as an int.
  const isInt = /^(0|-?[1-9][0-9]*)$/.test(key) && BigInt.asIntN(64, BigInt(key)) === BigInt(key)
  return key === '' || isInt ? `~2${escaped}` : escaped
}
