// A picture of two axes of a tensor, or of the filters of a convolution.
import type { Tensor } from 'espalier'
import { useEffect, useMemo, useRef, useState } from 'preact/hooks'
import { isLocal, type OpenFile } from '../data/open-file.js'
import type { Spot } from '../data/spot.js'
import { ChartDownloads } from '../ui/chart-downloads.js'
import { formatBytes } from '../ui/format.js'
import { palette as paletteOf } from './colours.js'
import { chooseDomain, isAroundZero, sortedFinite } from './domain.js'
import { numberTextOf } from './element-text.js'
import { covers, isSharp, summaryOf } from './heat-coverage.js'
import { HeatReadout, type HeatPoint } from './heat-readout.js'
import { profileCsv } from './heat-csv.js'
import type { HeatGrid } from './heat-grid.js'
import { readHeat, type HeatRead } from './heat-read.js'
import { moved, wholeOf, windowsAround, zoomed, type Windows } from './heat-windows.js'
import { HeatmapFigure } from './heatmap-figure.js'
import { HeatmapLegend } from './heatmap-legend.js'
import { FIRST_LOOK, HeatmapSettings, type HeatLook } from './heatmap-settings.js'
import { layoutOf } from './layout.js'
import { filterPlane, hasFilters, matrixPlane, rangeOf } from './plane.js'
import { TaskLine } from './task-line.js'
import { useTask } from './use-task.js'
import { ViewPicker } from './view-picker.js'
import type { View } from './view.js'

/** What is read without being asked for, in bytes; of more, a sample is. */
const LOCAL_BYTES = 256 << 20
const REMOTE_BYTES = 16 << 20

/** Milliseconds that a window must rest before it is read. */
const REST = 150

/** @param isShown whether the tab is the current one: reading stops when it is left */
export function HeatmapTab({ tensor, file, view, spot, isShown, onView, onJump }: {
  tensor: Tensor
  file: OpenFile
  view: View
  /** The place to show. */
  spot: Spot | undefined
  isShown: boolean
  onView: (view: View) => void
  onJump: (index: number[]) => void
}) {
  const layout = layoutOf(tensor)
  const [areFilters, setFilters] = useState(() => hasFilters(layout))
  const shape = areFilters ? 'filters' : JSON.stringify(view)
  const plane = useMemo(() => (areFilters ? filterPlane(layout) : matrixPlane(layout, view)), [shape])
  const whole = wholeOf(plane)
  // A zoom does not apply to other axes, but to other indices of them.
  const axes = areFilters ? 'filters' : `${view.row},${view.column}`
  const region = useMemo(() => spot && plane.regionOf(spot), [spot, plane])
  const [zoom, setZoom] = useState<{ plane: string; windows: Windows }>()
  useEffect(() => {
    if (region) setZoom({ plane: axes, windows: windowsAround(region, whole) })
  }, [spot, axes])
  const windows = zoom?.plane === axes ? zoom.windows : whole
  const show = (next: Windows | undefined): void => setZoom(next && { plane: axes, windows: next })
  const [look, setLook] = useState<HeatLook>(FIRST_LOOK)
  const { mode, map, profile } = look
  const [isPanning, setPanning] = useState(false)
  const [isAllWanted, setAllWanted] = useState(false)
  const [point, setPoint] = useState<HeatPoint>()
  const [drawn, setDrawn] = useState<HeatGrid>()
  const picture = useRef<{ svg: SVGSVGElement; canvas: HTMLCanvasElement } | null>(null)
  const base = useTask<HeatRead>()
  const fine = useTask<HeatRead>()

  const limit = isLocal(file) ? LOCAL_BYTES : REMOTE_BYTES
  const canReadAll = (part: Windows): boolean => isAllWanted || plane.cost(rangeOf(part.rows), rangeOf(part.columns), limit) <= limit
  const read = (part: Windows, hasProfiles: boolean) => (signal: AbortSignal, onProgress: Parameters<typeof readHeat>[3]) =>
    readHeat(tensor, { layout, plane, view, ...part, isAll: canReadAll(part), hasProfiles }, signal, onProgress)
  const baseRead = base.value?.plane === plane ? base.value : undefined
  useEffect(() => {
    if (!isShown) {
      base.cancel()
      return undefined
    }
    if (baseRead && !(isAllWanted && baseRead.sample)) return undefined
    // A dragged slider changes often: read only its resting position.
    const timer = setTimeout(() => base.start(read(whole, true)), base.value ? REST : 0)
    return () => clearTimeout(timer)
  }, [shape, isShown, isAllWanted])

  const fits = fine.value?.plane === plane && covers(fine.value, windows) && !(isAllWanted && fine.value.sample) ? fine.value : undefined
  const shown = fits ?? baseRead
  const part = JSON.stringify([shape, windows])
  useEffect(() => {
    if (!isShown || !shown || isSharp(shown, windows, picture.current?.canvas)) return fine.cancel()
    const timer = setTimeout(() => fine.start(read(windows, false)), REST)
    return () => clearTimeout(timer)
  }, [part, isShown, shown === undefined, isAllWanted])

  const values = useMemo(() => shown?.grid.values(mode), [shown, mode])
  const sorted = useMemo(() => values && sortedFinite(values), [values])
  const palette = useMemo(() => paletteOf(map), [map])
  const { kind, low, high, isSymmetric, isLog } = look.domain
  const domain = useMemo(() => sorted && chooseDomain(sorted, look.domain), [sorted, kind, low, high, isSymmetric, isLog])
  const hasGaps = useMemo(() => shown?.grid.positions.includes(-1) === true, [shown])
  const text = useMemo(() => numberTextOf(tensor.dtype), [tensor])

  const readAll = (): void => {
    // Wanted before, and cancelled.
    if (isAllWanted) base.start(read(whole, true))
    setAllWanted(true)
  }
  const zoomBy = (factor: number): void => {
    const place = point && point.grid.placeOf(point.cell)
    show({ rows: zoomed(windows.rows, plane.rows, factor, place?.row), columns: zoomed(windows.columns, plane.columns, factor, place?.column) })
  }
  const pan = (down: number, right: number): void => show({
    rows: moved(windows.rows, plane.rows, down * windows.rows.count), columns: moved(windows.columns, plane.columns, right * windows.columns.count),
  })
  const isWhole = windows.rows.count === plane.rows && windows.columns.count === plane.columns
  const isEnd = ({ start, count }: Windows['rows'], length: number): boolean => start + count >= length
  const name = (axis: number): string => (axis < 0 ? '' : `axis ${axis}${tensor.axisNames?.[axis] ? ` ${tensor.axisNames[axis]}` : ''}`)
  const axisNames = areFilters ? (['axis 0, output channels', 'axis 1, input channels'] as const) : ([name(view.row), name(view.column)] as const)
  const isHigher = layout.shape.length > 2
  const picker = <ViewPicker layout={layout} axisNames={tensor.axisNames} view={view} onView={onView} />
  return (
    <>
      {hasFilters(layout) && (
        <div class="tensor-controls">
          <label>
            Layout <select value={areFilters ? 'filters' : 'matrix'} onChange={(event) => setFilters(event.currentTarget.value === 'filters')}>
              <option value="filters">filters of {layout.shape[2]} by {layout.shape[3]}</option>
              <option value="matrix">two axes</option>
            </select>
          </label>
        </div>
      )}
      {!areFilters && isHigher && picker}
      <HeatmapSettings look={look} isSymmetric={isSymmetric ?? (sorted !== undefined && isAroundZero(sorted))} onLook={setLook}>
        {!areFilters && !isHigher && picker}
      </HeatmapSettings>
      <div class="tensor-controls">
        <span class="tensor-buttons" role="group" aria-label="Window">
          <button type="button" onClick={() => zoomBy(0.5)} disabled={windows.rows.count <= 4 && windows.columns.count <= 4}>Zoom in</button>
          <button type="button" onClick={() => zoomBy(2)} disabled={isWhole}>Zoom out</button>
          <button type="button" onClick={() => show(undefined)} disabled={isWhole}>Whole</button>
          <button type="button" aria-label="Up" disabled={windows.rows.start === 0} onClick={() => pan(-0.5, 0)}>↑</button>
          <button type="button" aria-label="Down" disabled={isEnd(windows.rows, plane.rows)} onClick={() => pan(0.5, 0)}>↓</button>
          <button type="button" aria-label="Left" disabled={windows.columns.start === 0} onClick={() => pan(0, -0.5)}>←</button>
          <button type="button" aria-label="Right" disabled={isEnd(windows.columns, plane.columns)} onClick={() => pan(0, 0.5)}>→</button>
        </span>
        <label>
          Drag <select value={isPanning ? 'pan' : 'zoom'} onChange={(event) => setPanning(event.currentTarget.value === 'pan')}>
            <option value="zoom">zooms</option>
            <option value="pan">moves</option>
          </select>
        </label>
      </div>
      {shown?.sample && (
        <div class="tensor-sample" role="note">
          <strong>A sample:</strong> {shown.sample}. What lies between them is not shown.
          {base.state !== 'running' && fine.state !== 'running' && (
            <button type="button" onClick={readAll}>Read all {formatBytes(plane.cost(rangeOf(whole.rows), rangeOf(whole.columns)))}</button>
          )}
        </div>
      )}
      {base.state === 'cancelled' && isShown && !baseRead && <button type="button" onClick={() => base.start(read(whole, true))}>Read it</button>}
      <TaskLine task={base} label={canReadAll(whole) ? 'Reading all elements' : 'Reading a sample'} />
      {shown && (
        <figure class="tensor-heatmap">
          <HeatReadout tensor={tensor} plane={plane} point={point} mode={mode} text={text} />
          <HeatmapFigure
            plane={plane} grid={shown.grid} down={baseRead?.down} across={baseRead?.across} windows={windows} region={region}
            mode={mode} domain={domain} palette={palette} profile={profile} axisNames={axisNames} isPanning={isPanning}
            onWindows={show} onGrid={setDrawn} onCursor={(grid, cell) => setPoint(cell === undefined ? undefined : { grid, cell })}
            onEnter={(grid, cell) => {
              const { row, column } = grid.placeOf(cell)
              if (grid.positions[cell]! >= 0) onJump(plane.indexAt(row, column))
            }}
            picture={picture}
          />
          <HeatmapLegend
            domain={domain} palette={palette} least={sorted?.[0] ?? 0} greatest={sorted?.[sorted.length - 1] ?? 0}
            hasGaps={hasGaps}
          />
          <ChartDownloads
            name={`${tensor.path} heatmap`} chart={() => picture.current && { ...picture.current }}
            csv={() => profileCsv(shown, baseRead)}
          />
          <p class="tensor-note">{drawn && summaryOf(drawn, shown.sample !== undefined, windows, plane.rows * plane.columns)}{fine.state === 'running' && ' Reading it finer...'}</p>
          {fine.state === 'failed' && <p class="tensor-error" role="alert">{fine.error}</p>}
        </figure>
      )}
    </>
  )
}
