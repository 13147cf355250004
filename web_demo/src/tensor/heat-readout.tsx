// The value of the cell under the pointer: an element, or what a cell of several shows.
import type { DType, Tensor } from 'espalier'
import { useEffect, useState } from 'preact/hooks'
import { shortNumber } from '../ui/chart-number.js'
import { textsOf } from './element-text.js'
import type { CellMode, HeatGrid } from './heat-grid.js'
import { formatIndex } from './index-text.js'
import { layoutOf, only, toSlice } from './layout.js'
import type { Plane } from './plane.js'

/** A cell of a grid. */
export interface HeatPoint {
  readonly grid: HeatGrid
  readonly cell: number
}

export function HeatReadout({ tensor, plane, point, mode, text }: {
  tensor: Tensor
  plane: Plane
  point: HeatPoint | undefined
  mode: CellMode
  /** The text of a number of the tensor. */
  text: (value: number) => string
}) {
  const isKnown = point !== undefined && point.grid.positions[point.cell]! >= 0
  const { row, column } = isKnown ? point.grid.placeOf(point.cell) : { row: 0, column: 0 }
  const index = plane.indexAt(row, column)
  const exact = useExact(tensor, isKnown && isInexact(tensor.dtype) ? index : undefined)
  return (
    <output class="tensor-readout" aria-live="polite">
      {!point ? 'Point at a cell for its value. The wheel and a dragged rectangle zoom; with Shift, dragging moves.'
        : !isKnown ? 'Not read' : known(point)}
    </output>
  )

  function known({ grid, cell }: HeatPoint) {
    const [r, c] = [Math.floor(cell / grid.width), cell % grid.width]
    const value = <><code>{formatIndex(index)}</code> = <strong>{exact ?? text(grid.extremes[cell]!)}</strong></>
    const span = (first: number, stop: number, noun: string): string =>
      stop - first === 1 ? `${noun} ${first.toLocaleString('en')}` : `${noun}s ${first.toLocaleString('en')} to ${(stop - 1).toLocaleString('en')}`
    const [firstRow, stopRow, firstColumn, stopColumn] = [grid.rows.first[r]!, grid.rows.stop[r]!, grid.columns.first[c]!, grid.columns.stop[c]!]
    if ((stopRow - firstRow) * (stopColumn - firstColumn) === 1) return value
    const mean = grid.counts[cell]! > 0 ? shortNumber(grid.sums[cell]! / grid.counts[cell]!) : 'none'
    return (
      <>
        {span(firstRow, stopRow, 'row')}, {span(firstColumn, stopColumn, 'column')}:{' '}
        {mode === 'mean' && Number.isFinite(grid.extremes[cell]!) && <>mean |x| <strong>{mean}</strong>, </>}
        {Number.isFinite(grid.extremes[cell]!) ? 'largest at' : 'first at'} {value}
        {mode === 'extreme' && `, mean |x| ${mean}`}
      </>
    )
  }
}

/** Whether a double cannot hold every element. */
function isInexact(dtype: DType): boolean {
  return /^([iu]64|c)/.test(dtype)
}

/** The exact text of one element, once it is read. */
function useExact(tensor: Tensor, index: readonly number[] | undefined): string | undefined {
  const [known, setKnown] = useState<{ key: string; text: string }>()
  const key = index?.join()
  useEffect(() => {
    if (!index) return undefined
    const stop = new AbortController()
    const timer = setTimeout(() => {
      tensor.read({ slice: toSlice(layoutOf(tensor), index.map(only)), signal: stop.signal })
        .then((data) => setKnown({ key: key!, text: textsOf(data)(0) }), () => {})
    }, 30)
    return () => {
      clearTimeout(timer)
      stop.abort()
    }
  }, [key])
  return known && known.key === key ? known.text : undefined
}
