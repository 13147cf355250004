// A picture of where a tensor changed.
import type { Tensor } from 'espalier'
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks'
import { NAN_COLOUR, palette, pixelOf, SHADES } from '../tensor/colours'
import { chooseDomain, sortedFinite } from '../tensor/domain'
import { TaskLine } from '../tensor/task-line'
import { useTask } from '../tensor/use-task'
import { shortNumber } from '../ui/chart-number'
import { formatExact } from '../ui/format'
import { deltaRows, readCells, type Cells } from './delta-cells'

/** Whether a picture of these tensors makes sense. */
export function hasHeatmap({ shape, elements, dtype }: Tensor): boolean {
  // A complex change has no sign.
  return shape.length > 0 && elements > 1 && dtype !== 'opaque' && !/^c/.test(dtype)
}

/** Reads the two and draws their difference. */
export function DeltaHeatmap({ before, after }: { before: Tensor; after: Tensor }) {
  const task = useTask<Cells>()
  useEffect(() => task.start((signal, onProgress) => readCells(deltaRows(before, after), signal, onProgress)), [before, after])
  return (
    <div class="delta-heatmap">
      {task.state !== 'done' && <DeltaTask task={task} />}
      {task.value && <Picture cells={task.value} />}
    </div>
  )
}

/** The progress counts rows, not bytes. */
function DeltaTask({ task }: { task: ReturnType<typeof useTask<Cells>> }) {
  if (task.state !== 'running') return <TaskLine task={task} label="Reading" />
  const { progress } = task
  return (
    <p>
      <progress aria-label="Reading for the picture" {...(progress ? { max: progress.total, value: progress.loaded } : {})} />{' '}
      <button type="button" onClick={() => task.cancel()}>Cancel</button>
    </p>
  )
}

function Picture({ cells }: { cells: Cells }) {
  const { rows, columns, numbers, rowsInCell, columnsInCell, rowsRead } = cells
  const canvas = useRef<HTMLCanvasElement>(null)
  const [cursor, setCursor] = useState<{ readonly row: number; readonly column: number }>()
  const range = chooseDomain(sortedFinite(numbers), { kind: 'robust', low: 0, high: 100, isSymmetric: true, isLog: false })?.high ?? 0
  useLayoutEffect(() => {
    canvas.current?.getContext('2d')?.putImageData(new ImageData(pixels(numbers, range), columns, rows), 0, 0)
  }, [cells])
  const go = (row: number, column: number): void => setCursor({ row: clamp(row, rows), column: clamp(column, columns) })
  const onKeyDown = (event: KeyboardEvent): void => {
    const { row, column } = cursor ?? { row: 0, column: 0 }
    const far = event.shiftKey ? 16 : 1
    const to = { ArrowUp: [row - far, column], ArrowDown: [row + far, column], ArrowLeft: [row, column - far], ArrowRight: [row, column + far] }[event.key]
    if (!to || event.ctrlKey || event.metaKey || event.altKey) return
    event.preventDefault()
    go(to[0]!, to[1]!)
  }
  const part = (at: number, step: number, noun: string): string => (step === 1 ? `${noun} ${formatExact(at)}` : `${noun}s ${formatExact(at * step)} to ${formatExact((at + 1) * step - 1)}`)
  return (
    <figure>
      <canvas
        ref={canvas} width={columns} height={rows} tabIndex={0} role="img"
        aria-label={`Heatmap of the change, ${rows} by ${columns} cells. Arrow keys go from cell to cell.`}
        // Few cells are drawn larger, one row as a strip.
        style={{ aspectRatio: `${columns} / ${rows}`, width: `${Math.min(100, (columns * 100) / Math.max(rows, 16))}%`, minHeight: '1rem' }}
        onPointerMove={({ currentTarget, clientX, clientY }) => {
          const box = currentTarget.getBoundingClientRect()
          go(Math.floor(((clientY - box.top) / box.height) * rows), Math.floor(((clientX - box.left) / box.width) * columns))
        }}
        onKeyDown={onKeyDown}
      />
      <output aria-live="polite">
        {cursor
          ? <>{part(cursor.row, rowsInCell, 'row')}, {part(cursor.column, columnsInCell, 'column')}: {rowsInCell * columnsInCell > 1 && 'largest '}Δ <strong>{shortNumber(numbers[cursor.row * columns + cursor.column]!)}</strong></>
          : `Blue fell, red rose, ${range > 0 ? `strongest from ${shortNumber(range)} on` : 'nothing changed'}.`}
      </output>
      <figcaption>
        {rowsInCell * columnsInCell > 1 ? `A cell shows the largest change of ${formatExact(rowsInCell)} × ${formatExact(columnsInCell)} elements` : 'Each cell is an element'}
        {rowsRead < rowsInCell && `; sampled: ${formatExact(rowsRead)} of the ${formatExact(rowsInCell)} rows of each were read`}.
      </figcaption>
    </figure>
  )
}

/** Changes up to `range` from blue to red. A cell without a number has the colour of NaN. */
function pixels(numbers: ArrayLike<number>, range: number): Uint8ClampedArray<ArrayBuffer> {
  const shades = palette('diverging')
  const nan = pixelOf(NAN_COLOUR)
  const painted = Uint32Array.from(numbers, (value) => {
    if (Number.isNaN(value)) return nan
    const part = range > 0 ? Math.max(-1, Math.min(value / range, 1)) : 0
    return shades[Math.round(((part + 1) / 2) * (SHADES - 1))]!
  })
  return new Uint8ClampedArray(painted.buffer)
}

function clamp(index: number, length: number): number {
  return Math.max(0, Math.min(index, length - 1))
}
