// The picture of a heatmap with its axes, the curves beside it, and what the pointer and the keys do.
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks'
import { draw } from './heat-draw.js'
import type { Domain } from './domain.js'
import { cellAt } from './heat-axis.js'
import { ColumnCurve, RowCurve } from './heat-curves.js'
import type { CellMode, HeatGrid } from './heat-grid.js'
import { PROFILES, type HeatProfile, type ProfileKind } from './heat-profile.js'
import { BOTTOM, CURVE, GAP, LEFT, sizeOf, useRoom } from './heat-room.js'
import { IndexTicks, TileLines } from './heat-ticks.js'
import { moved, showing, spanning, zoomed, type Windows } from './heat-windows.js'
import type { Plane, Window } from './plane.js'

/** The least size of a NaN or an infinity, in CSS pixels. */
const MARK = 5

/** A cell under the pointer or chosen by keys. */
export interface HeatCursor {
  readonly row: number
  readonly column: number
}

/** @param onCursor called with the grid that is drawn, and the cell's row and column in it */
export function HeatmapFigure({ plane, grid: read, down, across, windows, region, mode, domain, palette, profile, axisNames, isPanning, onWindows, onGrid, onCursor, onEnter, picture }: {
  plane: Plane
  grid: HeatGrid
  down: HeatProfile | undefined
  across: HeatProfile | undefined
  windows: Windows
  /** The cells to mark. */
  region: Windows | undefined
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
  // In the window, not in the picture: text above may push that down while it is dragged.
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
    if (isPanning || event.shiftKey || event.button === 1) pan.current = { x: event.clientX, y: event.clientY, windows }
    else setDrag({ x, y, toX: x, toY: y })
  }
  const onPointerMove = (event: PointerEvent): void => {
    if (pan.current) {
      const { windows: from } = pan.current
      onWindows({
        rows: moved(from.rows, plane.rows, ((pan.current.y - event.clientY) / height) * rows.count),
        columns: moved(from.columns, plane.columns, ((pan.current.x - event.clientX) / width) * columns.count),
      })
      return
    }
    const { x, y } = place(event)
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
          <IndexTicks window={columns} unit={plane.tile?.columns ?? 1} wanted={width / 70} at={(index) => [xOf(index), top + height]} isDown={false} />
          {plane.rows > 1 && <IndexTicks window={rows} unit={plane.tile?.rows ?? 1} wanted={height / 44} at={(index) => [LEFT, yOf(index)]} isDown />}
          <text x={LEFT + width / 2} y={top + height + 33} text-anchor="middle">{axisNames[1]}</text>
          <text transform={`translate(11 ${top + height / 2}) rotate(-90)`} text-anchor="middle">{axisNames[0]}</text>
          {hasCurves && across && <ColumnCurve profile={across} kind={profile} window={columns} x={LEFT} width={width} />}
          {hasCurves && across && <text x={LEFT + width + GAP + 2} y={CURVE - 3}>{PROFILES[profile]}</text>}
          {hasCurves && down && plane.rows > 1 && <RowCurve profile={down} kind={profile} window={rows} x={LEFT + width + GAP} y={top} height={height} />}
          {region && (
            <rect
              class="heat-spot" x={Math.max(LEFT, xOf(region.columns.start)) - 2} y={Math.max(top, yOf(region.rows.start)) - 2}
              width={Math.max(0, Math.min(LEFT + width, xOf(region.columns.start + region.columns.count)) - Math.max(LEFT, xOf(region.columns.start))) + 4}
              height={Math.max(0, Math.min(top + height, yOf(region.rows.start + region.rows.count)) - Math.max(top, yOf(region.rows.start))) + 4}
            />
          )}
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

function words({ start, count }: Window, noun: string): string {
  return `${noun} ${start.toLocaleString('en')} to ${(start + count - 1).toLocaleString('en')}`
}
