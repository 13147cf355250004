// The picture of a heatmap with its axes, the curves beside it, and what the pointer and the keys do.
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks'
import { shortNumber } from '../ui/chart-number.js'
import { linearTicks } from '../ui/chart-scale.js'
import { draw } from './heat-draw.js'
import type { Domain } from './domain.js'
import { cellAt } from './heat-axis.js'
import { curveOf, pathOf } from './heat-curve.js'
import type { CellMode, HeatGrid } from './heat-grid.js'
import { PROFILES, type HeatProfile, type ProfileKind } from './heat-profile.js'
import { moved, showing, spanning, zoomed, type Windows } from './heat-windows.js'
import type { Plane, Window } from './plane.js'

/** Room for the labels and the curves around the picture. */
const LEFT = 58
const BOTTOM = 38
const CURVE = 56
const GAP = 8
const MAX_CELL = 32

/** The least size of a NaN or an infinity, in CSS pixels. */
const MARK = 5

/** A cell under the pointer or chosen by keys. */
export interface HeatCursor {
  readonly row: number
  readonly column: number
}

/** @param onCursor called with the grid that is drawn, and the cell's row and column in it */
export function HeatmapFigure({ plane, grid: read, down, across, windows, mode, domain, palette, profile, axisNames, isPanning, onWindows, onGrid, onCursor, onEnter, picture }: {
  plane: Plane
  grid: HeatGrid
  down: HeatProfile | undefined
  across: HeatProfile | undefined
  windows: Windows
  mode: CellMode
  domain: Domain | undefined
  palette: Uint32Array
  profile: ProfileKind
  axisNames: readonly [rows: string, columns: string]
  /** Whether dragging moves the picture rather than choosing a part. */
  isPanning: boolean
  onWindows: (windows: Windows | undefined) => void
  /** Called with the cells that are drawn. */
  onGrid: (grid: HeatGrid) => void
  onCursor: (grid: HeatGrid, cell: number | undefined) => void
  onEnter: (grid: HeatGrid, cell: number) => void
  picture: { current: { svg: SVGSVGElement; canvas: HTMLCanvasElement } | null }
}) {
  const { rows, columns } = windows
  const canvas = useRef<HTMLCanvasElement>(null)
  const svg = useRef<SVGSVGElement>(null)
  const frame = useRef<HTMLDivElement>(null)
  const room = useRoom(frame)
  const { width, height, hasCurves } = sizeOf(rows.count, columns.count, room)
  const top = hasCurves ? CURVE + GAP : 4
  const scale = globalThis.devicePixelRatio || 1
  const [pixelsAcross, pixelsDown] = [Math.max(1, Math.round(width * scale)), Math.max(1, Math.round(height * scale))]
  const grid = useMemo(() => read.within(rows, columns, pixelsDown, pixelsAcross), [read, rows.start, rows.count, columns.start, columns.count, pixelsAcross, pixelsDown])
  const [cursor, setCursor] = useState<HeatCursor>()
  const [drag, setDrag] = useState<{ x: number; y: number; toX: number; toY: number }>()
  const pan = useRef<{ x: number; y: number; windows: Windows } | undefined>(undefined)

  useLayoutEffect(() => {
    picture.current = { svg: svg.current!, canvas: canvas.current! }
    const pixels = draw({ grid, rows, columns, mode, domain, palette }, pixelsAcross, pixelsDown, Math.round(MARK * scale))
    const image = new ImageData(new Uint8ClampedArray(pixels.buffer), pixelsAcross, pixelsDown)
    canvas.current!.getContext('2d')!.putImageData(image, 0, 0)
  }, [grid, mode, domain, palette, pixelsAcross, pixelsDown])

  // The cells of another grid are others.
  useEffect(() => {
    setCursor(undefined)
    onCursor(grid, undefined)
    onGrid(grid)
  }, [grid])

  const choose = (row: number, column: number): void => {
    const next = { row: Math.min(Math.max(row, 0), grid.height - 1), column: Math.min(Math.max(column, 0), grid.width - 1) }
    setCursor(next)
    onCursor(grid, next.row * grid.width + next.column)
  }
  const rowAt = (y: number): number => rows.start + (y / height) * rows.count
  const columnAt = (x: number): number => columns.start + (x / width) * columns.count
  const place = (event: MouseEvent): { x: number; y: number } => {
    const box = canvas.current!.getBoundingClientRect()
    return { x: event.clientX - box.left, y: event.clientY - box.top }
  }
  const zoomAt = (factor: number, row?: number, column?: number): void => onWindows({
    rows: zoomed(rows, plane.rows, factor, row), columns: zoomed(columns, plane.columns, factor, column),
  })
  const onPointerDown = (event: PointerEvent): void => {
    if (event.button > 1) return
    const { x, y } = place(event)
    choose(cellAt(grid.rows, rowAt(y)), cellAt(grid.columns, columnAt(x)))
    if (event.pointerType === 'touch') return
    canvas.current!.setPointerCapture(event.pointerId)
    if (isPanning || event.shiftKey || event.button === 1) pan.current = { x, y, windows }
    else setDrag({ x, y, toX: x, toY: y })
  }
  const onPointerMove = (event: PointerEvent): void => {
    const { x, y } = place(event)
    if (pan.current) {
      const { windows: from } = pan.current
      onWindows({
        rows: moved(from.rows, plane.rows, ((pan.current.y - y) / height) * rows.count),
        columns: moved(from.columns, plane.columns, ((pan.current.x - x) / width) * columns.count),
      })
      return
    }
    choose(cellAt(grid.rows, rowAt(y)), cellAt(grid.columns, columnAt(x)))
    if (drag) setDrag({ ...drag, toX: Math.min(Math.max(x, 0), width), toY: Math.min(Math.max(y, 0), height) })
  }
  const onPointerUp = (): void => {
    pan.current = undefined
    setDrag(undefined)
    if (!drag || Math.abs(drag.toX - drag.x) < 5 || Math.abs(drag.toY - drag.y) < 5) return
    onWindows({
      rows: spanning(rowAt(drag.y), rowAt(drag.toY), plane.rows),
      columns: spanning(columnAt(drag.x), columnAt(drag.toX), plane.columns),
    })
  }
  const onWheel = (event: WheelEvent): void => {
    const isOut = event.deltaY > 0
    // Zooming out of the whole picture would do nothing: let the page scroll.
    if (event.deltaY === 0 || (isOut && rows.count === plane.rows && columns.count === plane.columns)) return
    event.preventDefault()
    const { x, y } = place(event)
    zoomAt(isOut ? 1.25 : 0.8, rowAt(y), columnAt(x))
  }
  const wheel = useRef(onWheel)
  wheel.current = onWheel
  useEffect(() => {
    const listen = (event: WheelEvent): void => wheel.current(event)
    // Not as an attribute: browsers take those to be passive.
    canvas.current!.addEventListener('wheel', listen, { passive: false })
    return () => canvas.current?.removeEventListener('wheel', listen)
  }, [])

  const onKeyDown = (event: KeyboardEvent): void => {
    if (event.ctrlKey || event.metaKey || event.altKey) return
    const { row, column } = cursor ?? { row: 0, column: 0 }
    const far = event.shiftKey ? 16 : 1
    const go = (down: number, right: number): void => {
      if (!cursor) return choose(row, column)
      const [nextRow, nextColumn] = [row + down, column + right]
      const isInside = nextRow >= 0 && nextRow < grid.height && nextColumn >= 0 && nextColumn < grid.width
      if (isInside) return choose(nextRow, nextColumn)
      // Beyond the edge the window moves on.
      onWindows({
        rows: showing(rows, plane.rows, Math.floor(rows.start + ((nextRow + 0.5) * rows.count) / grid.height)),
        columns: showing(columns, plane.columns, Math.floor(columns.start + ((nextColumn + 0.5) * columns.count) / grid.width)),
      })
    }
    const [middleRow, middleColumn] = cursor
      ? [(grid.rows.edges[row]! + grid.rows.edges[row + 1]!) / 2, (grid.columns.edges[column]! + grid.columns.edges[column + 1]!) / 2] as const
      : []
    const moves: Record<string, () => void> = {
      ArrowUp: () => go(-far, 0),
      ArrowDown: () => go(far, 0),
      ArrowLeft: () => go(0, -far),
      ArrowRight: () => go(0, far),
      Home: () => choose(row, 0),
      End: () => choose(row, grid.width - 1),
      PageUp: () => onWindows({ rows: moved(rows, plane.rows, -rows.count / 2), columns }),
      PageDown: () => onWindows({ rows: moved(rows, plane.rows, rows.count / 2), columns }),
      Enter: () => cursor && onEnter(grid, row * grid.width + column),
      '+': () => zoomAt(0.5, middleRow, middleColumn),
      '=': () => zoomAt(0.5, middleRow, middleColumn),
      '-': () => zoomAt(2, middleRow, middleColumn),
      0: () => onWindows(undefined),
    }
    const move = moves[event.key]
    if (!move) return
    event.preventDefault()
    move()
  }

  const shown = cursor && cursor.row < grid.height && cursor.column < grid.width ? cursor : undefined
  const xOf = (column: number): number => LEFT + ((column - columns.start) / columns.count) * width
  const yOf = (row: number): number => top + ((row - rows.start) / rows.count) * height
  const [totalWidth, totalHeight] = [LEFT + width + (hasCurves ? GAP + CURVE + 2 : 8), top + height + BOTTOM]
  return (
    <div ref={frame} class="heat-frame">
      <div class="heat-picture" style={{ width: `${totalWidth}px`, height: `${totalHeight}px` }}>
        <canvas
          ref={canvas} width={pixelsAcross} height={pixelsDown} tabIndex={0} role="img" data-panning={isPanning || undefined}
          style={{ left: `${LEFT}px`, top: `${top}px`, width: `${width}px`, height: `${height}px` }}
          aria-label={`Heatmap of ${words(rows, 'rows')} and ${words(columns, 'columns')}. Arrow keys go from cell to cell, Enter shows it in the table, plus and minus zoom, 0 shows everything.`}
          onPointerDown={onPointerDown} onPointerMove={onPointerMove} onPointerUp={onPointerUp} onPointerCancel={onPointerUp}
          onDblClick={(event) => zoomAt(0.5, rowAt(place(event).y), columnAt(place(event).x))} onKeyDown={onKeyDown}
        />
        <svg ref={svg} class="chart heat-axes" width={totalWidth} height={totalHeight} viewBox={`0 0 ${totalWidth} ${totalHeight}`} aria-hidden="true">
          <rect class="chart-frame" x={LEFT - 0.5} y={top - 0.5} width={width + 1} height={height + 1} data-picture />
          {plane.tile && <TileLines plane={plane} rows={rows} columns={columns} xOf={xOf} yOf={yOf} />}
          {indexTicks(columns, plane.tile?.columns ?? 1, width / 70).map(({ at, name }) => (
            <g key={`x${at}`}>
              <line class="chart-axis" x1={xOf(at)} x2={xOf(at)} y1={top + height} y2={top + height + 4} />
              <text x={xOf(at)} y={top + height + 16} text-anchor="middle">{name}</text>
            </g>
          ))}
          {plane.rows > 1 && indexTicks(rows, plane.tile?.rows ?? 1, height / 44).map(({ at, name }) => (
            <g key={`y${at}`}>
              <line class="chart-axis" x1={LEFT - 4} x2={LEFT} y1={yOf(at)} y2={yOf(at)} />
              <text x={LEFT - 7} y={yOf(at) + 4} text-anchor="end">{name}</text>
            </g>
          ))}
          <text x={LEFT + width / 2} y={top + height + 33} text-anchor="middle">{axisNames[1]}</text>
          <text transform={`translate(11 ${top + height / 2}) rotate(-90)`} text-anchor="middle">{axisNames[0]}</text>
          {hasCurves && across && <ColumnCurve profile={across} kind={profile} window={columns} x={LEFT} width={width} />}
          {hasCurves && across && <text x={LEFT + width + GAP + 2} y={CURVE - 3}>{PROFILES[profile]}</text>}
          {hasCurves && down && plane.rows > 1 && <RowCurve profile={down} kind={profile} window={rows} x={LEFT + width + GAP} y={top} height={height} />}
          {shown && !drag && (
            <rect
              class="heat-cursor" data-transient
              x={xOf(grid.columns.edges[shown.column]!) - 1.5} y={yOf(grid.rows.edges[shown.row]!) - 1.5}
              width={((grid.columns.edges[shown.column + 1]! - grid.columns.edges[shown.column]!) / columns.count) * width + 3}
              height={((grid.rows.edges[shown.row + 1]! - grid.rows.edges[shown.row]!) / rows.count) * height + 3}
            />
          )}
          {drag && (
            <rect
              class="heat-drag" data-transient x={LEFT + Math.min(drag.x, drag.toX)} y={top + Math.min(drag.y, drag.toY)}
              width={Math.abs(drag.toX - drag.x)} height={Math.abs(drag.toY - drag.y)}
            />
          )}
        </svg>
      </div>
    </div>
  )
}

/** The curve above the picture. */
function ColumnCurve({ profile, kind, window, x, width }: { profile: HeatProfile; kind: ProfileKind; window: Window; x: number; width: number }) {
  const curve = useMemo(() => curveOf(profile, kind, window, width), [profile, kind, window.start, window.count, width])
  if (curve.greatest < curve.least) return null
  return (
    <g>
      <line class="chart-grid" x1={x} x2={x + width} y1={CURVE} y2={CURVE} />
      <path class="chart-line" d={pathOf(curve, (place, share) => `${(x + place * width).toFixed(1)} ${(CURVE - 2 - share * (CURVE - 6)).toFixed(1)}`)} />
      {curve.specials.map((place) => <rect key={place} class="heat-special" x={x + place * width - 1.5} y={CURVE - 1} width={3} height={5} />)}
      <text x={x - 7} y={10} text-anchor="end">{shortNumber(curve.greatest, 3)}</text>
      <text x={x - 7} y={CURVE - 3} text-anchor="end">{shortNumber(curve.least, 3)}</text>
    </g>
  )
}

/** The curve at the right of the picture. */
function RowCurve({ profile, kind, window, x, y, height }: { profile: HeatProfile; kind: ProfileKind; window: Window; x: number; y: number; height: number }) {
  const curve = useMemo(() => curveOf(profile, kind, window, height), [profile, kind, window.start, window.count, height])
  if (curve.greatest < curve.least) return null
  return (
    <g>
      <line class="chart-grid" x1={x} x2={x} y1={y} y2={y + height} />
      <path class="chart-line" d={pathOf(curve, (place, share) => `${(x + 2 + share * (CURVE - 6)).toFixed(1)} ${(y + place * height).toFixed(1)}`)} />
      {curve.specials.map((place) => <rect key={place} class="heat-special" x={x - 4} y={y + place * height - 1.5} width={5} height={3} />)}
      <text x={x + CURVE} y={y + height + 16} text-anchor="end">{shortNumber(curve.greatest, 3)}</text>
    </g>
  )
}

/** Lines between filters, if there is room for them. */
function TileLines({ plane, rows, columns, xOf, yOf }: { plane: Plane; rows: Window; columns: Window; xOf: (column: number) => number; yOf: (row: number) => number }) {
  const { tile } = plane
  if (!tile || xOf(columns.start + tile.columns) - xOf(columns.start) < 6) return null
  const [x1, x2] = [xOf(columns.start), xOf(columns.start + columns.count)]
  const [y1, y2] = [yOf(rows.start), yOf(rows.start + rows.count)]
  return (
    <g class="heat-tiles">
      {multiples(columns, tile.columns).map((at) => <line key={`x${at}`} x1={xOf(at)} x2={xOf(at)} y1={y1} y2={y2} />)}
      {multiples(rows, tile.rows).map((at) => <line key={`y${at}`} x1={x1} x2={x2} y1={yOf(at)} y2={yOf(at)} />)}
    </g>
  )
}

function multiples({ start, count }: Window, unit: number): number[] {
  const found: number[] = []
  for (let at = Math.ceil(start / unit) * unit; at <= start + count; at += unit) found.push(at)
  return found
}

/** Ticks at the middle of the indices (of tiles, if there are any) that they name. */
function indexTicks({ start, count }: Window, unit: number, wanted: number): { at: number; name: string }[] {
  const ticks = linearTicks(start / unit, (start + count) / unit, Math.max(2, wanted)).filter(Number.isInteger)
  return ticks
    .map((tick) => ({ at: (tick + 0.5) * unit, name: tick.toLocaleString('en') }))
    .filter(({ at }) => at >= start && at <= start + count)
}

function words({ start, count }: Window, noun: string): string {
  return `${noun} ${start.toLocaleString('en')} to ${(start + count - 1).toLocaleString('en')}`
}

/** Room for the whole figure, in CSS pixels. */
interface Room {
  readonly width: number
  readonly height: number
}

/** The size of the picture: square cells, unless it is so long and thin that they would be too small. */
function sizeOf(rows: number, columns: number, room: Room): { width: number; height: number; hasCurves: boolean } {
  const hasCurves = room.width >= 380
  const width = room.width - LEFT - (hasCurves ? GAP + CURVE + 2 : 8)
  const height = room.height - BOTTOM - (hasCurves ? CURVE + GAP : 4)
  const across = Math.min(MAX_CELL, width / columns)
  const down = Math.min(MAX_CELL, height / rows)
  const [less, more] = [Math.min(across, down), Math.max(across, down)]
  const cell = more / less <= 3 ? { across: less, down: less } : { across, down }
  return { width: Math.max(1, Math.round(cell.across * columns)), height: Math.max(1, Math.round(cell.down * rows)), hasCurves }
}

/** The room that the pane and the window leave. */
function useRoom(element: { readonly current: HTMLElement | null }): Room {
  const [room, setRoom] = useState<Room>({ width: 600, height: 600 })
  useLayoutEffect(() => {
    const measure = (): void => {
      const { width } = element.current!.getBoundingClientRect()
      // Hidden: keep the size for when it is shown again.
      if (width > 0) setRoom({ width: Math.max(width, 160), height: Math.min(Math.max(innerHeight - 150, 320), 1400) })
    }
    const observer = new ResizeObserver(measure)
    observer.observe(element.current!)
    addEventListener('resize', measure)
    return () => {
      observer.disconnect()
      removeEventListener('resize', measure)
    }
  }, [])
  return room
}
