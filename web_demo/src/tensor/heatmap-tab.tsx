// A picture of two axes of a tensor.
import type { Tensor } from 'espalier'
import { useEffect, useState } from 'preact/hooks'
import { formatBytes } from '../ui/format.js'
import { HeatmapCanvas } from './heatmap-canvas.js'
import { describePick, planHeatmap, type Window } from './heatmap-plan.js'
import { readHeatmap, type HeatmapCells } from './heatmap-read.js'
import { CHUNK_BYTES, layoutOf } from './layout.js'
import { rangeOf, type RangeKind } from './percentile.js'
import { TaskLine } from './task-line.js'
import { useTask } from './use-task.js'
import { ViewPicker } from './view-picker.js'
import { lengthOf, type View } from './view.js'

const CELLS = 512
/** Chunks of 1 MiB to read at first, and the factor for each "read more". */
const CHUNKS = 16
const MORE = 8
const MOST_CHUNKS = 1024

interface Windows {
  readonly rows: Window
  readonly columns: Window
}

/** @param onJump shows the element at an index in the table */
export function HeatmapTab({ tensor, view, onView, onJump }: {
  tensor: Tensor
  view: View
  onView: (view: View) => void
  onJump: (index: number[]) => void
}) {
  const layout = layoutOf(tensor)
  const whole: Windows = {
    rows: { start: 0, count: lengthOf(layout, view.row) },
    columns: { start: 0, count: lengthOf(layout, view.column) },
  }
  const axes = `${view.row},${view.column}`
  const [zoom, setZoom] = useState<{ axes: string; windows: Windows }>()
  // A zoom does not apply to other axes.
  const windows = zoom?.axes === axes ? zoom.windows : whole
  const [chunks, setChunks] = useState(CHUNKS)
  const [kind, setKind] = useState<RangeKind>('robust')
  const [center, setCenter] = useState<{ row: number; column: number }>()
  const task = useTask<HeatmapCells>()
  const plan = planHeatmap(layout, view, windows.rows, windows.columns, { cells: CELLS, chunks })
  const wanted = JSON.stringify([view, windows, chunks])
  useEffect(() => {
    // A dragged slider changes often: read only its resting position.
    const timer = setTimeout(() => task.start((signal, onProgress) => readHeatmap(tensor, layout, view, plan, signal, onProgress)), task.value ? 80 : 0)
    return () => clearTimeout(timer)
  }, [wanted])

  const show = (rows: Window, columns: Window): void => setZoom({ axes, windows: { rows, columns } })
  const zoomBy = (factor: number): void => show(
    zoomed(windows.rows, whole.rows.count, factor, center?.row), zoomed(windows.columns, whole.columns.count, factor, center?.column),
  )
  const pan = (down: number, across: number): void => show(
    moved(windows.rows, whole.rows.count, down), moved(windows.columns, whole.columns.count, across),
  )
  const isWhole = windows.rows.count === whole.rows.count && windows.columns.count === whole.columns.count
  const isPartial = plan.rows.length > 1 || plan.columns.length > 1
  const cells = task.value
  const range = cells ? rangeOf(cells.numbers, kind) : 0
  const span = ({ start, count }: Window, noun: string): string => `${noun} ${start.toLocaleString('en')} to ${(start + count - 1).toLocaleString('en')}`
  return (
    <>
      <ViewPicker layout={layout} axisNames={tensor.axisNames} view={view} onView={onView} />
      <div class="tensor-controls">
        <label>
          Colours <select value={kind} onChange={(event) => setKind(event.currentTarget.value as RangeKind)}>
            <option value="robust">1st to 99th percentile</option>
            <option value="full">min to max</option>
          </select>
        </label>
        <span class="tensor-buttons" role="group" aria-label="Window">
          <button type="button" onClick={() => zoomBy(0.25)} disabled={windows.rows.count <= 8 && windows.columns.count <= 8}>Zoom in</button>
          <button type="button" onClick={() => zoomBy(4)} disabled={isWhole}>Zoom out</button>
          <button type="button" onClick={() => setZoom(undefined)} disabled={isWhole}>Whole</button>
          <button type="button" aria-label="Up" disabled={windows.rows.start === 0} onClick={() => pan(-0.5, 0)}>↑</button>
          <button type="button" aria-label="Down" disabled={isEnd(windows.rows, whole.rows)} onClick={() => pan(0.5, 0)}>↓</button>
          <button type="button" aria-label="Left" disabled={windows.columns.start === 0} onClick={() => pan(0, -0.5)}>←</button>
          <button type="button" aria-label="Right" disabled={isEnd(windows.columns, whole.columns)} onClick={() => pan(0, 0.5)}>→</button>
        </span>
      </div>
      <p class="tensor-note">
        Shown: {describePick(plan.rows, windows.rows, 'rows')}, {describePick(plan.columns, windows.columns, 'columns')}
        {!isWhole && ` (${span(windows.rows, 'rows')}, ${span(windows.columns, 'columns')})`}.
        {' '}Reads at most {formatBytes(Math.min(plan.chunks * CHUNK_BYTES, tensor.byteLength))}.
        {isPartial && chunks < MOST_CHUNKS && (
          <button type="button" onClick={() => setChunks(chunks * MORE)}>Read up to {formatBytes(Math.min(chunks * MORE * CHUNK_BYTES, tensor.byteLength))}</button>
        )}
      </p>
      <TaskLine task={task} label="Reading" />
      {cells && (
        <HeatmapCanvas
          cells={cells} range={range}
          onCenter={(row, column) => setCenter({ row, column })} onZoom={() => zoomBy(0.25)} onJump={onJump}
        />
      )}
    </>
  )
}

function isEnd({ start, count }: Window, whole: Window): boolean {
  return start + count >= whole.count
}

/** A window `factor` times as long, about `center` or its middle. */
function zoomed({ start, count }: Window, length: number, factor: number, center = start + Math.floor(count / 2)): Window {
  const next = Math.min(Math.max(Math.round(count * factor), 8), length)
  return { start: Math.min(Math.max(center - Math.floor(next / 2), 0), length - next), count: next }
}

/** A window moved by a share of its length. */
function moved({ start, count }: Window, length: number, share: number): Window {
  return { start: Math.min(Math.max(start + Math.round(count * share), 0), length - count), count }
}
