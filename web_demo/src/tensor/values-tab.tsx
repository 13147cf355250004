// A table of exact elements, page by page.
import type { Tensor } from 'espalier'
import { useEffect, useRef, useState } from 'preact/hooks'
import { formatIndex, parseIndex } from './index-text.js'
import { layoutOf } from './layout.js'
import { columnsFor, planPage, readPage, type PageCells } from './page.js'
import { TaskLine } from './task-line.js'
import { useTask } from './use-task.js'
import { ViewPicker } from './view-picker.js'
import { indexAt, lengthOf, type View } from './view.js'

/** The table's position: the first row and column, and the index of the requested cell. */
export interface Place {
  readonly row: number
  readonly column: number
  readonly marked: readonly number[] | undefined
}

/** @param place the table's position, kept by the pane so that others can change it */
export function ValuesTab({ tensor, view, onView, place, onPlace, onJump }: {
  tensor: Tensor
  view: View
  onView: (view: View) => void
  place: Place
  onPlace: (place: Place) => void
  onJump: (index: number[]) => void
}) {
  const layout = layoutOf(tensor)
  const task = useTask<PageCells>()
  const table = useRef<HTMLDivElement>(null)
  const [rows, columns] = [lengthOf(layout, view.row), lengthOf(layout, view.column)]
  const page = planPage(layout, view, Math.min(place.row, rows - 1), Math.min(place.column, columns - 1), columnsFor(tensor))
  const wanted = JSON.stringify([view, page])
  useEffect(() => task.start((signal) => readPage(tensor, layout, view, page, signal)), [wanted])
  // On a narrow page it may be a column that is out of sight.
  useEffect(() => table.current?.querySelector('.tensor-marked')?.scrollIntoView({ block: 'nearest', inline: 'center' }), [task.value, place.marked])
  const height = page.rows.stop - page.rows.start
  const width = page.columns.stop - page.columns.start
  const move = (down: number, across: number): void => onPlace({
    row: clamp(page.rows.start + down, rows - 1), column: clamp(page.columns.start + across, columns - 1), marked: undefined,
  })
  const onKeyDown = (event: KeyboardEvent): void => {
    if (event.key === 'PageDown' && page.rows.stop < rows) move(height, 0)
    else if (event.key === 'PageUp') move(-height, 0)
    else return
    event.preventDefault()
  }
  const cells = task.value
  const unit = layout.unit > 1 ? ' Each cell is a block, in hex; indices along the last axis count blocks.' : ''
  return (
    <>
      <ViewPicker layout={layout} axisNames={tensor.axisNames} view={view} onView={onView} />
      <div class="tensor-controls">
        <JumpForm shape={layout.shape} onJump={onJump} />
        <span class="tensor-buttons" role="group" aria-label="Page">
          <button type="button" aria-label="First" disabled={page.rows.start === 0 && page.columns.start === 0} onClick={() => move(-Infinity, -Infinity)}>⇤</button>
          <button type="button" aria-label="Page up" disabled={page.rows.start === 0} onClick={() => move(-height, 0)}>↑</button>
          <button type="button" aria-label="Page down" disabled={page.rows.stop >= rows} onClick={() => move(height, 0)}>↓</button>
          <button type="button" aria-label="Page left" disabled={page.columns.start === 0} onClick={() => move(0, -width)}>←</button>
          <button type="button" aria-label="Page right" disabled={page.columns.stop >= columns} onClick={() => move(0, width)}>→</button>
        </span>
        <span class="tensor-note">
          {view.row >= 0 && `Rows ${span(page.rows.start, page.rows.stop, rows)}, `}
          {view.column >= 0 && `${view.row >= 0 ? 'columns' : 'Elements'} ${span(page.columns.start, page.columns.stop, columns)}.`}
          {unit}
        </span>
      </div>
      <TaskLine task={task} label="Reading" />
      {cells && (
        <div ref={table} class="tensor-table" tabIndex={0} role="region" aria-label="Elements" onKeyDown={onKeyDown}>
          <Table cells={cells} marked={place.marked} width={columnsFor(tensor)} />
        </div>
      )}
    </>
  )
}

function Table({ cells: { view, page, text }, marked, width }: { cells: PageCells; marked: readonly number[] | undefined; width: number }) {
  // A tensor of one row is shown in lines, and each line counts as a row.
  const isBroken = view.row < 0
  const rows = isBroken ? steps(page.columns, width) : indices(page.rows)
  const columns = isBroken ? Array.from({ length: Math.min(width, page.columns.stop - page.columns.start) }, (_, i) => i) : indices(page.columns)
  const isMarked = (row: number, column: number): boolean =>
    marked !== undefined && indexAt(view, row, column).every((index, axis) => index === marked[axis])
  return (
    <table>
      <thead>
        <tr>
          <th scope="col"><span class="tensor-note">{view.fixed.length === 0 ? '' : formatTemplate(view)}</span></th>
          {columns.map((column) => <th key={column} scope="col">{view.column < 0 ? '' : isBroken ? `+${column}` : column}</th>)}
        </tr>
      </thead>
      <tbody>
        {rows.map((row, r) => (
          <tr key={row}>
            <th scope="row">{view.column < 0 ? '' : row}</th>
            {columns.map((column, c) => {
              const across = isBroken ? row + column : column
              if (across >= page.columns.stop) return null
              return (
                <td key={column} class={isMarked(row, across) ? 'tensor-marked' : undefined} title={formatIndex(indexAt(view, row, across))}>
                  {isBroken ? text(0, across - page.columns.start) : text(r, c)}
                </td>
              )
            })}
          </tr>
        ))}
      </tbody>
    </table>
  )
}

function JumpForm({ shape, onJump }: { shape: readonly number[]; onJump: (index: number[]) => void }) {
  const [error, setError] = useState<string>()
  const input = useRef<HTMLInputElement>(null)
  if (shape.length === 0) return null
  const onSubmit = (event: Event): void => {
    event.preventDefault()
    const index = parseIndex(input.current!.value, shape)
    setError(typeof index === 'string' ? index : undefined)
    if (typeof index !== 'string') onJump(index)
  }
  return (
    <form class="tensor-jump" onSubmit={onSubmit}>
      <label>
        Index <input ref={input} type="text" size={Math.max(10, shape.length * 4)} placeholder={shape.map((length) => length - 1).join(', ')} aria-invalid={error !== undefined} />
      </label>
      <button type="submit">Go</button>
      <span class="tensor-error" role="alert">{error}</span>
    </form>
  )
}

/** '[↓, 3, →]'. */
function formatTemplate(view: View): string {
  return `[${view.fixed.map((index, axis) => (axis === view.row ? '↓' : axis === view.column ? '→' : index)).join(', ')}]`
}

function steps({ start, stop }: { start: number; stop: number }, step: number): number[] {
  return Array.from({ length: Math.ceil((stop - start) / step) }, (_, i) => start + i * step)
}

function indices({ start, stop }: { start: number; stop: number }): number[] {
  return Array.from({ length: stop - start }, (_, i) => start + i)
}

function span(start: number, stop: number, length: number): string {
  return `${start.toLocaleString('en')} to ${(stop - 1).toLocaleString('en')} of ${length.toLocaleString('en')}`
}

function clamp(value: number, last: number): number {
  return Math.min(Math.max(value, 0), last)
}
