// The name of a node among its siblings.
import type { Node } from 'espalier'
import { visibleText } from '../ui/visible.js'

/** Its last key. A text key that looks like a number is in quotes, and so is the empty key. */
export function keyText(node: Node): string {
  const { key } = node
  if (key === undefined) return 'root'
  if (typeof key !== 'string') return String(key)
  return key === '' || /^-?\d+$/.test(key) ? `"${key}"` : visibleText(key.length > 500 ? `${key.slice(0, 500)}…` : key)
}
