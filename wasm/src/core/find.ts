// Finds nodes of a tree: around another one, at a key path, by patterns.
import { errorFromCode } from '../errors.js'
import type { Key } from './nodes.js'
import { NONE, readText, writeMatchOptions, type MatchOptions } from './records.js'
import { isWellFormed } from './text.js'
import type { Tree } from './tree.js'

/** The parent of a node; undefined for roots. */
export function parentOf({ core, handle }: Tree, id: number): number | undefined {
  return present(core.call.espalier_parent(handle, id))
}

/** The child of a node under a key, or at a position; undefined if there is none. */
export function findChild({ core, handle }: Tree, id: number, key: Key): number | undefined {
  const { call } = core
  if (typeof key === 'string') {
    // It would become U+FFFD, which may be another child's key.
    if (!isWellFormed(key)) return undefined
    return core.withText(key, (at, length) => present(call.espalier_child_text(handle, id, at, length)))
  }
  const integer = typeof key === 'bigint' || Number.isSafeInteger(key) ? BigInt(key) : undefined
  // Other numbers are not keys, and would wrap to valid ones.
  if (integer === undefined || BigInt.asIntN(64, integer) !== integer) return undefined
  return present(call.espalier_child_int(handle, id, integer))
}

/** The printed key path of a node. */
export function pathOf({ core, handle }: Tree, id: number): string {
  core.check(core.call.espalier_path(handle, id, core.out))
  return core.text(readText(core.view, core.out))
}

/**
 * The node at a printed key path below `id`, or undefined.
 * @throws EspalierError invalid_key_path for text that is not a key path
 */
export function findPath({ core, handle }: Tree, id: number, path: string): number | undefined {
  if (!isWellFormed(path)) throw errorFromCode('invalid_key_path', 'the path has half of a surrogate pair')
  core.withText(path, (at, length) => core.check(core.call.espalier_find(handle, id, at, length, core.out)))
  return present(core.view.getUint32(core.out, true))
}

/**
 * The nodes, or the tensors, that patterns select below `root`, in tree order.
 * @throws EspalierError invalid_pattern
 */
export function findMatches({ core, handle }: Tree, root: number, patterns: readonly string[], options: MatchOptions): Uint32Array {
  if (!patterns.every(isWellFormed)) throw errorFromCode('invalid_pattern', 'a pattern has an unpaired surrogate')
  const matches = core.withTexts(patterns, (at, count) => {
    writeMatchOptions(core.view, core.out, options)
    return core.pointer(core.call.espalier_match(handle, root, at, count, core.out))
  })
  const count = core.call.espalier_match_count(matches) >>> 0
  const at = core.call.espalier_match_nodes(matches) >>> 0
  const nodes = new Uint32Array(count)
  if (count > 0) nodes.set(new Uint32Array(core.bytes.buffer, at, count))
  core.call.espalier_match_free(matches)
  return nodes
}

function present(id: number): number | undefined {
  const unsigned = id >>> 0
  return unsigned === NONE ? undefined : unsigned
}
