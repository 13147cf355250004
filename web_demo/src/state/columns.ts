// Shows lists of similar dicts, such as an optimizer's param_groups, side by side.
import type { Node } from 'espalier'

const MOST_ROWS = 64
const MOST_COLUMNS = 12

/** A row for each key, with the value in each dict. */
export interface Columns {
  readonly dicts: readonly Node[]
  readonly rows: readonly { readonly key: Node; readonly cells: readonly (Node | undefined)[] }[]
  /** The number of dicts, including those that are not shown. */
  readonly total: number
}

/** The columns of a list or tuple of dicts with common keys; undefined for other nodes. */
export function columnsOf(node: Node): Columns | undefined {
  if (!['list', 'tuple'].includes(node.kind) || node.size === 0) return undefined
  const dicts: Node[] = []
  for (const child of node.children) {
    if (dicts.length === MOST_COLUMNS) break
    if ((child.kind !== 'dict' && child.kind !== 'record') || child.size === 0 || child.size > MOST_ROWS) return undefined
    dicts.push(child)
  }
  const rows = new Map<string, { key: Node; cells: (Node | undefined)[] }>()
  dicts.forEach((dict, column) => {
    for (const child of dict.children) {
      // '0' and 0 are different keys.
      const name = `${typeof child.key} ${String(child.key)}`
      const row = rows.get(name) ?? { key: child, cells: new Array<Node | undefined>(dicts.length).fill(undefined) }
      row.cells[column] = child
      rows.set(name, row)
    }
  })
  const filled = [...rows.values()].reduce((sum, { cells }) => sum + cells.filter(Boolean).length, 0)
  // Dicts with few common keys are better shown one after the other.
  if (rows.size > MOST_ROWS || filled < 0.5 * rows.size * dicts.length) return undefined
  return { dicts, rows: [...rows.values()], total: node.size }
}
