// The labels along a heatmap, and the lines between its filters.
import { linearTicks } from '../ui/chart-scale.js'
import type { Plane, Window } from './plane.js'

/** Ticks with the numbers of indices, or of tiles of `unit` indices. @param at the point on the axis for a position */
export function IndexTicks({ window, unit, wanted, at, isDown }: {
  window: Window
  unit: number
  wanted: number
  at: (position: number) => [x: number, y: number]
  isDown: boolean
}) {
  return (
    <g>
      {indexTicks(window, unit, wanted).map(({ at: position, name }) => {
        const [x, y] = at(position)
        return (
          <g key={position}>
            <line class="chart-axis" x1={isDown ? x - 4 : x} x2={x} y1={y} y2={isDown ? y : y + 4} />
            <text x={isDown ? x - 7 : x} y={isDown ? y + 4 : y + 16} text-anchor={isDown ? 'end' : 'middle'}>{name}</text>
          </g>
        )
      })}
    </g>
  )
}

/** Lines between filters, if there is room for them. */
export function TileLines({ plane, rows, columns, xOf, yOf }: { plane: Plane; rows: Window; columns: Window; xOf: (column: number) => number; yOf: (row: number) => number }) {
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
