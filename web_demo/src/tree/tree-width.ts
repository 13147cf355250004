// The width of the tree, in percent of the page.
import { recall } from '../data/memory'

/** The name that the chosen width is stored under. */
export const TREE_WIDTH = 'espalier.tree-width'

/** The stored width; undefined for the usual one. */
export function storedTreeWidth(): number | undefined {
  return Number(recall(TREE_WIDTH)) || undefined
}

/** Applies a width. Call it before the first drawing, so that nothing moves. */
export function applyTreeWidth(width = storedTreeWidth()): void {
  if (width) document.documentElement.style.setProperty('--tree-width', `${width}%`)
}
