// The picture, its legend, and the value of the cell under the pointer.
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks'
import { shortNumber } from '../ui/chart-number.js'
import { paint } from './colours.js'
import { formatIndex } from './index-text.js'
import type { HeatmapCells } from './heatmap-read.js'
import { indexAt } from './view.js'

const MAX_HEIGHT = 480
const MAX_CELL = 32

/** @param onCenter called with the row and the column of the chosen cell */
export function HeatmapCanvas({ cells, range, onCenter, onZoom, onJump }: {
  cells: HeatmapCells
  range: number
  onCenter: (row: number, column: number) => void
  onZoom: () => void
  onJump: (index: number[]) => void
}) {
  const { rows, columns, numbers, view } = cells
  const canvas = useRef<HTMLCanvasElement>(null)
  const frame = useRef<HTMLDivElement>(null)
  const [cursor, setCursor] = useState<{ row: number; column: number }>()
  const width = useWidth(frame)
  const size = cellSize(rows.length, columns.length, width)
  useLayoutEffect(() => {
    const context = canvas.current?.getContext('2d')
    context?.putImageData(new ImageData(paint(numbers, range), columns.length, rows.length), 0, 0)
  }, [cells, range])
  useEffect(() => setCursor(undefined), [cells])

  const choose = (row: number, column: number): void => {
    const next = { row: Math.min(Math.max(row, 0), rows.length - 1), column: Math.min(Math.max(column, 0), columns.length - 1) }
    setCursor(next)
    onCenter(rows[next.row]!, columns[next.column]!)
  }
  const onPointer = (event: PointerEvent): void => {
    const box = canvas.current!.getBoundingClientRect()
    choose(Math.floor((event.clientY - box.top) / size.height), Math.floor((event.clientX - box.left) / size.width))
  }
  const onKeyDown = (event: KeyboardEvent): void => {
    const { row, column } = cursor ?? { row: 0, column: 0 }
    const far = event.shiftKey ? 16 : 1
    const moves: Record<string, () => void> = {
      ArrowUp: () => choose(row - far, column),
      ArrowDown: () => choose(row + far, column),
      ArrowLeft: () => choose(row, column - far),
      ArrowRight: () => choose(row, column + far),
      Home: () => choose(row, 0),
      End: () => choose(row, columns.length - 1),
      Enter: () => cursor && onJump(indexAt(view, rows[row]!, columns[column]!)),
      '+': onZoom,
    }
    const move = moves[event.key]
    if (!move || event.ctrlKey || event.metaKey || event.altKey) return
    event.preventDefault()
    move()
  }
  const shown = cursor && cursor.row < rows.length && cursor.column < columns.length ? cursor : undefined
  return (
    <figure class="tensor-heatmap">
      <output class="tensor-readout" aria-live="polite">
        {shown
          ? <><code>{formatIndex(indexAt(view, rows[shown.row]!, columns[shown.column]!))}</code> = <strong>{cells.text(shown.row, shown.column)}</strong></>
          : 'Point at a cell, or use the arrow keys, to see its value. A double click zooms in.'}
      </output>
      <div ref={frame}>
        <div class="tensor-picture" style={{ width: `${size.width * columns.length}px`, height: `${size.height * rows.length}px` }}>
          <canvas
            ref={canvas} width={columns.length} height={rows.length} tabIndex={0} role="img"
            aria-label={`Heatmap of ${rows.length} rows and ${columns.length} columns. Arrow keys go from cell to cell, Enter shows it in the table.`}
            onPointerMove={onPointer} onPointerDown={onPointer} onDblClick={onZoom} onKeyDown={onKeyDown}
          />
          {shown && (
            <div class="tensor-cursor" style={{
              width: `${Math.max(size.width, 3)}px`, height: `${Math.max(size.height, 3)}px`,
              left: `${shown.column * size.width}px`, top: `${shown.row * size.height}px`,
            }} />
          )}
        </div>
      </div>
      <figcaption class="tensor-legend">
        <span>{range > 0 ? `≤ ${shortNumber(-range)}` : ''}</span>
        <Legend />
        <span>{range > 0 ? `≥ ${shortNumber(range)}` : 'all are zero'}</span>
        <span><i class="tensor-swatch tensor-swatch-nan" />NaN</span>
        <span><i class="tensor-swatch tensor-swatch-inf" />Inf</span>
        <span><i class="tensor-swatch tensor-swatch-minus-inf" />-Inf</span>
      </figcaption>
    </figure>
  )
}

/** The colours from the lowest value to the highest. */
function Legend() {
  const canvas = useRef<HTMLCanvasElement>(null)
  useLayoutEffect(() => {
    const shades = Array.from({ length: 101 }, (_, i) => i / 50 - 1)
    canvas.current?.getContext('2d')?.putImageData(new ImageData(paint(shades, 1), shades.length, 1), 0, 0)
  }, [])
  return <canvas ref={canvas} width={101} height={1} role="img" aria-label="from blue below zero by white at zero to red above" />
}

/** Size of a cell in pixels: square, unless the picture is so long and thin that squares would be too small. */
function cellSize(rows: number, columns: number, width: number): { width: number; height: number } {
  const across = Math.min(MAX_CELL, width / columns)
  const down = Math.min(MAX_CELL, MAX_HEIGHT / rows)
  const [less, more] = [Math.min(across, down), Math.max(across, down)]
  return more / less <= 4 ? { width: less, height: less } : { width: across, height: down }
}

/** The current width of an element in pixels. */
function useWidth(element: { readonly current: HTMLElement | null }): number {
  const [width, setWidth] = useState(512)
  useLayoutEffect(() => {
    const observer = new ResizeObserver(([entry]) => entry && setWidth(Math.max(entry.contentRect.width, 64)))
    observer.observe(element.current!)
    return () => observer.disconnect()
  }, [])
  return width
}
