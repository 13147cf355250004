// The view of a tensor: two axes, and an index for each of the others.
import { only, type Layout, type Range } from './layout.js'

/** A two-dimensional part of a tensor. */
export interface View {
  /** The axes that go down and across; -1 if the tensor has too few, for one row or one column. */
  readonly row: number
  readonly column: number
  /** An index for each axis. Those of the two shown axes are ignored. */
  readonly fixed: readonly number[]
}

/** The default view: usually the last two axes; for convolutions the first two. */
export function defaultView({ shape }: Pick<Layout, 'shape'>): View {
  const fixed = shape.map(() => 0)
  if (shape.length < 2) return { row: -1, column: shape.length - 1, fixed }
  const last = shape.length - 1
  // Kernels of 3 by 3 show little, so use the two longest axes in their order.
  const [a, b] = shape.map((length, axis) => ({ length, axis })).sort((x, y) => y.length - x.length || y.axis - x.axis)
  if (shape[last]! * shape[last - 1]! >= 256) return { row: last - 1, column: last, fixed }
  return { row: Math.min(a!.axis, b!.axis), column: Math.max(a!.axis, b!.axis), fixed }
}

/** The number of cells along an axis of a view. */
export function lengthOf({ shape }: Pick<Layout, 'shape'>, axis: number): number {
  return axis < 0 ? 1 : shape[axis]!
}

/** A range for each axis of the tensor. */
export function rangesOf({ shape }: Pick<Layout, 'shape'>, view: View, rows: Range, columns: Range): Range[] {
  return shape.map((_, axis) => (axis === view.row ? rows : axis === view.column ? columns : only(view.fixed[axis]!)))
}

/** The index of the cell at a row and a column. */
export function indexAt(view: View, row: number, column: number): number[] {
  return view.fixed.map((index, axis) => (axis === view.row ? row : axis === view.column ? column : index))
}

/** The position of a cell in data of `rows` times `columns` cells in C order. */
export function positionIn(view: View, rows: number, columns: number, row: number, column: number): number {
  return view.row > view.column ? column * rows + row : row * columns + column
}

/** The view with another axis going down or across. If both would be the same axis, they are swapped. */
export function withAxis(view: View, side: 'row' | 'column', axis: number): View {
  const other = side === 'row' ? 'column' : 'row'
  return view[other] === axis ? { ...view, [side]: axis, [other]: view[side] } : { ...view, [side]: axis }
}
