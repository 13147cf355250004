// The node that a note is about.
import type { Checkpoint, Key, Node } from 'espalier'

/** Longer paths are not looked up: a file could make that slow. */
const LONGEST = 1000

/**
 * The node at a path of the tree that the file stores, also if its dotted names were nested since. Undefined for the
 * whole file, and if there is none: what was lost has no node.
 */
export function notedNode({ root, isNested }: Checkpoint, path: string): Node | undefined {
  if (path === '' || path.length > LONGEST) return undefined
  return find(root, path.split('/').map(keyOf), isNested)
}

function find(node: Node, [key, ...rest]: readonly Key[], isNested: boolean): Node | undefined {
  if (key === undefined) return node
  // Digits mean the int key, or else the text key.
  const child = node.child(key) ?? (typeof key === 'string' ? undefined : node.child(String(key)))
  const found = child && find(child, rest, isNested)
  if (found || !isNested || typeof key !== 'string' || node.kind !== 'dict') return found
  // The longest beginning first: "a" beside "a.b" is a value of its own, and what is in it has another path.
  for (let dot = key.lastIndexOf('.'); dot >= 0; dot = dot > 0 ? key.lastIndexOf('.', dot - 1) : -1) {
    const below = node.child(key.slice(0, dot))
    const within = below?.kind === 'dict' ? find(below, [key.slice(dot + 1), ...rest], isNested) : undefined
    if (within) return within
  }
  return undefined
}

/** The key that a segment of a printed path stands for. */
function keyOf(segment: string): Key {
  if (/^(0|-?[1-9]\d*)$/.test(segment) && BigInt.asIntN(64, BigInt(segment)) === BigInt(segment)) return BigInt(segment)
  return segment.replace(/^~2/, '').replaceAll('~1', '/').replaceAll('~0', '~')
}
