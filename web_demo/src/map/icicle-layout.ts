// Lays out the rectangles of the map.
import type { Node } from 'espalier'
import { branchesOf, type Branches, type Measure } from './branches.js'
import type { Slices } from './time-slices.js'

/** A rectangle: a node, or several that are too small to be drawn. */
export interface Cell {
  /** Undefined for several nodes. */
  readonly node: Node | undefined
  /** Its container. */
  readonly parent: Cell | undefined
  /** The number of nodes in it. */
  readonly count: number
  readonly size: number
  /** Rows from the focus. */
  readonly depth: number
  /** In pixels. */
  readonly x: number
  readonly width: number
  /** The number of its branch of the focus. */
  readonly branch: number
}

/** Rows below the focus. */
export const MAX_DEPTH = 7

/** The rectangles of a node's children. Children narrower than a pixel share one rectangle. */
export function placeChildren(parent: Cell, { kept, restCount, restSize, total }: Branches): Cell[] {
  if (!(total > 0)) return []
  const cells: Cell[] = []
  const scale = parent.width / total
  let x = parent.x
  let [count, size] = [restCount, restSize]
  kept.forEach((branch, i) => {
    const width = branch.size * scale
    if (width < 1) {
      count++
      size += branch.size
      return
    }
    const depth = parent.depth + 1
    cells.push({ node: branch.node, parent, count: 1, size: branch.size, depth, x, width, branch: parent.depth === 0 ? i : parent.branch })
    x += width
  })
  const width = Math.min(size * scale, parent.x + parent.width - x)
  if (count > 0 && width >= 0.5) {
    cells.push({ node: undefined, parent, count, size, depth: parent.depth + 1, x, width, branch: parent.depth === 0 ? cells.length : parent.branch })
  }
  return cells
}

/**
 * Lays out the tree below a node, level by level.
 * @param onCells called now and then, and at the end, with all cells so far; first with the node's children
 */
export async function layOut(
  focus: Node, measure: Measure, width: number, slices: Slices,
  onCells: (top: Branches | undefined, cells: readonly Cell[], isAll: boolean) => void,
): Promise<void> {
  const top: Cell = { node: focus, parent: undefined, count: 1, size: 0, depth: 0, x: 0, width, branch: 0 }
  const cells: Cell[] = [top]
  let told = performance.now()
  let topBranches: Branches | undefined
  for (let next = 0; next < cells.length; next++) {
    const cell = cells[next]!
    if (!cell.node || cell.node.size === 0 || cell.depth >= MAX_DEPTH || cell.width < 2) continue
    const branches = await branchesOf(cell.node, measure, slices)
    if (cell === top) {
      topBranches = branches
      cells[0] = { ...top, size: branches.total }
    }
    cells.push(...placeChildren(cell, branches))
    if (slices.isOver) await slices.rest()
    if (performance.now() - told > 200) {
      onCells(topBranches, cells.slice(), false)
      told = performance.now()
    }
  }
  onCells(topBranches, cells, true)
}

/** The cell one step away in a direction; undefined if there is none. */
export function neighbour(cells: readonly Cell[], from: Cell, direction: 'left' | 'right' | 'up' | 'down'): Cell | undefined {
  const middle = from.x + from.width / 2
  if (direction === 'up') return cells.find(({ depth, x, width }) => depth === from.depth - 1 && x <= middle && middle < x + width)
  if (direction === 'down') return cells.find(({ depth, x, width }) => depth === from.depth + 1 && x >= from.x - 0.01 && x + width <= from.x + from.width + 0.01)
  const row = cells.filter(({ depth }) => depth === from.depth).sort((a, b) => a.x - b.x)
  const at = row.findIndex(({ x }) => x === from.x)
  return row[at + (direction === 'left' ? -1 : 1)]
}
