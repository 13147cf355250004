// Draws the cells of a heatmap as pixels.
import { MINUS_INF_COLOUR, NAN_COLOUR, pixelOf, PLUS_INF_COLOUR, SHADES } from './colours.js'
import { scaleOf, type Domain } from './domain.js'
import type { HeatAxis } from './heat-axis.js'
import type { CellMode, HeatGrid } from './heat-grid.js'
import type { Window } from './plane.js'

/** What to draw. */
export interface Picture {
  readonly grid: HeatGrid
  readonly rows: Window
  readonly columns: Window
  readonly mode: CellMode
  /** Undefined if no value is finite. */
  readonly domain: Domain | undefined
  /** SHADES pixels. */
  readonly palette: Uint32Array
}

/**
 * The pixels of a picture. Cells without elements stay transparent.
 * @param mark the least size of a NaN or an infinity in pixels, so that a single one can be seen
 */
export function draw({ grid, rows, columns, mode, domain, palette }: Picture, width: number, height: number, mark: number): Uint32Array<ArrayBuffer> {
  const pixels = new Uint32Array(width * height)
  const share = domain ? scaleOf(domain) : () => 0.5
  const values = grid.values(mode)
  const special = { nan: pixelOf(NAN_COLOUR), inf: pixelOf(PLUS_INF_COLOUR), minusInf: pixelOf(MINUS_INF_COLOUR) }
  const colours = Uint32Array.from(values, (value, cell) => {
    if (grid.positions[cell]! < 0) return 0
    if (Number.isFinite(value)) return palette[Math.round(share(value) * (SHADES - 1))]!
    return Number.isNaN(value) ? special.nan : value > 0 ? special.inf : special.minusInf
  })
  const across = cellsOfPixels(grid.columns, columns, width)
  const down = cellsOfPixels(grid.rows, rows, height)
  for (let y = 0; y < height; y++) {
    if (down[y]! < 0) continue
    if (y > 0 && down[y] === down[y - 1]) {
      pixels.copyWithin(y * width, (y - 1) * width, y * width)
      continue
    }
    const first = down[y]! * grid.width
    for (let x = 0; x < width; x++) if (across[x]! >= 0) pixels[y * width + x] = colours[first + across[x]!]!
  }
  // NaN last: it beats the infinities.
  for (const wantsNan of [false, true]) {
    for (let cell = 0; cell < values.length; cell++) {
      const value = values[cell]!
      if (Number.isFinite(value) || Number.isNaN(value) !== wantsNan) continue
      const row = Math.floor(cell / grid.width)
      const [top, bottom] = span(grid.rows, row, rows, height, mark)
      const [left, right] = span(grid.columns, cell - row * grid.width, columns, width, mark)
      for (let y = top; y < bottom; y++) pixels.fill(colours[cell]!, y * width + left, y * width + right)
    }
  }
  return pixels
}

/** The cell below the middle of each pixel, or -1. */
function cellsOfPixels({ edges }: HeatAxis, { start, count }: Window, pixels: number): Int32Array {
  const cells = new Int32Array(pixels).fill(-1)
  let cell = 0
  for (let i = 0; i < pixels; i++) {
    const at = start + ((i + 0.5) * count) / pixels
    while (cell < edges.length - 2 && edges[cell + 1]! <= at) cell++
    if (edges[cell]! <= at && at < edges[cell + 1]!) cells[i] = cell
  }
  return cells
}

/** The pixels from and to which a cell is drawn, at least `mark` of them. */
function span({ edges }: HeatAxis, cell: number, { start, count }: Window, pixels: number, mark: number): [number, number] {
  const at = (edge: number): number => ((edge - start) / count) * pixels
  let [from, to] = [Math.round(at(edges[cell]!)), Math.round(at(edges[cell + 1]!))]
  if (to - from < mark) {
    const middle = Math.round((at(edges[cell]!) + at(edges[cell + 1]!) - mark) / 2)
    ;[from, to] = [middle, middle + mark]
  }
  return [Math.min(Math.max(from, 0), pixels), Math.min(Math.max(to, 0), pixels)]
}
