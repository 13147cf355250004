// The singular values of a matrix: all of them, or estimates of the largest.
import type { OnProgress, Tensor } from 'espalier'
import { nextTurn } from '../data/slices.js'
import { toNumbers } from './numbers.js'
import { rangeOf, type Plane } from './plane.js'
import type { Range } from './layout.js'
import { orthonormalise, singularValues, TallQr, unitFor, type Pace } from './svd.js'

/** Matrices whose shorter side is at most this long are decomposed exactly. */
export const EXACT_SIDE = 1024
/** Estimated singular values, and columns of the random projection beyond them. */
export const ESTIMATED = 64
const SPARE = 8
/** Elements read at once. */
const READ_CELLS = 1 << 21
/** The most elements of a matrix whose columns cannot be read in parts. */
const MOST_CELLS = 1 << 25

/** Milliseconds of work before events and drawing get their turn. */
const TURN = 12

/** Singular values in falling order. */
export interface Spectrum {
  /** In units: some may exceed the largest double. */
  readonly values: Float64Array
  /** The square root of the sum of the squares of all elements, in units. */
  readonly norm: number
  /** A power of two near the largest element. */
  readonly unit: number
  /** Whether the values are estimates of the largest ones rather than all. */
  readonly isEstimate: boolean
}

/** Whether a matrix is decomposed exactly. */
export function isExact({ rows, columns }: Pick<Plane, 'rows' | 'columns'>): boolean {
  return Math.min(rows, columns) <= EXACT_SIDE
}

/** The singular values of a plane. Progress counts work, not bytes. @throws Error for NaN and infinities */
export async function readSpectrum(tensor: Tensor, plane: Plane, canSplitColumns: boolean, signal: AbortSignal, onProgress: OnProgress): Promise<Spectrum> {
  const work = { loaded: 0, total: 1 }
  let end = performance.now() + TURN
  const rest = async (): Promise<void> => {
    onProgress({ loaded: Math.min(work.loaded, work.total), total: work.total })
    await nextTurn()
    signal.throwIfAborted()
    end = performance.now() + TURN
  }
  const pace: Pace = (done) => {
    work.loaded += done
    return performance.now() < end ? undefined : rest()
  }
  // Elements are divided by the unit, so that their squares neither overflow nor vanish. It grows when larger ones come.
  let unit = Number.MIN_VALUE
  let square = 0
  return isExact(plane) ? exact() : estimate()

  /**
   * Calls `use` with the elements in units, in parts along one axis. @param shrink multiplies what was computed so far, when the
   * unit has grown
   */
  async function eachPart(isByRows: boolean, shrink: (factor: number) => void, use: (element: (long: number, short: number) => number, range: Range) => Promise<void>): Promise<void> {
    const [long, short] = isByRows ? [plane.rows, plane.columns] : [plane.columns, plane.rows]
    const most = isByRows || canSplitColumns ? Math.max(1, Math.floor(READ_CELLS / short)) : long
    if (Math.min(most, long) * short > MOST_CELLS) throw new Error('This matrix is too large to decompose here.')
    for (let start = 0; start < long; start += most) {
      const range = { start, stop: Math.min(start + most, long), step: 1 }
      const whole = rangeOf({ start: 0, count: short })
      const { slice, rowOffsets, columnOffsets } = isByRows ? plane.part(range, whole) : plane.part(whole, range)
      const numbers = toNumbers(await tensor.read({ slice, signal }))
      let largest = 0
      for (let i = 0; i < numbers.length; i++) {
        if (!Number.isFinite(numbers[i]!)) throw new Error('It has NaN or infinite elements, so it has no singular values. The Statistics tab finds the first of them.')
        largest = Math.max(largest, Math.abs(numbers[i]!))
      }
      if (unitFor(largest) > unit) {
        const factor = unit / unitFor(largest)
        unit = unitFor(largest)
        square *= factor ** 2
        shrink(factor)
      }
      const [longs, shorts] = isByRows ? [rowOffsets, columnOffsets] : [columnOffsets, rowOffsets]
      await use((i, j) => numbers[longs[i]! + shorts[j]!]! / unit, range)
    }
  }

  async function exact(): Promise<Spectrum> {
    const isByRows = plane.rows >= plane.columns
    const [long, short] = isByRows ? [plane.rows, plane.columns] : [plane.columns, plane.rows]
    work.total = long * short * short + (4 / 3) * short ** 3 + 128 * short ** 2
    const qr = new TallQr(short)
    await eachPart(isByRows, (factor) => scale(qr.r, factor), async (element, { start, stop }) => {
      const count = stop - start
      const rows = new Float64Array(count * short)
      for (let j = 0; j < short; j++) {
        for (let i = 0; i < count; i++) {
          const value = element(i, j)
          rows[j * count + i] = value
          square += value * value
        }
        const rest = pace(0)
        if (rest) await rest
      }
      await qr.fold(rows, count, pace)
    })
    return { values: await singularValues(qr.r, short, pace), norm: Math.sqrt(square), unit, isEstimate: false }
  }

  /** Two rounds of subspace iteration from a random projection (Halko, Martinsson and Tropp 2011). */
  async function estimate(): Promise<Spectrum> {
    const isByRows = plane.isRowOuter || !canSplitColumns
    const [long, short] = isByRows ? [plane.rows, plane.columns] : [plane.columns, plane.rows]
    const width = ESTIMATED + SPARE
    work.total = 3 * long * short * width
    /** The product of the matrix with one of `width` columns. */
    const times = async (other: Float64Array, isFirst: boolean): Promise<Float64Array> => {
      const product = new Float64Array(long * width)
      await eachPart(isByRows, (factor) => scale(product, factor), async (element, { start, stop }) => {
        for (let i = start; i < stop; i++) {
          const own = i - start
          let j = 0
          for (; j + 4 <= short; j += 4) addFour(product, i * width, other, j * width, width, element(own, j), element(own, j + 1), element(own, j + 2), element(own, j + 3))
          for (; j < short; j++) addFour(product, i * width, other, j * width, width, element(own, j))
          if (isFirst) for (let k = 0; k < short; k++) square += element(own, k) ** 2
          const rest = pace(short * width)
          if (rest) await rest
        }
      })
      return product
    }
    /** The product of the transposed matrix with one of `width` columns. */
    const transposedTimes = async (other: Float64Array): Promise<Float64Array> => {
      const product = new Float64Array(short * width)
      await eachPart(isByRows, (factor) => scale(product, factor), async (element, { start, stop }) => {
        for (let i = start; i < stop; ) {
          const own = i - start
          const count = stop - i >= 4 ? 4 : 1
          for (let j = 0; j < short; j++) {
            if (count === 4) addFour(product, j * width, other, i * width, width, element(own, j), element(own + 1, j), element(own + 2, j), element(own + 3, j))
            else addFour(product, j * width, other, i * width, width, element(own, j))
          }
          i += count
          const rest = pace(count * short * width)
          if (rest) await rest
        }
      })
      return product
    }
    const range = await times(gaussians(short * width), true)
    await orthonormalise(range, long, width, pace)
    const domain = await transposedTimes(range)
    await orthonormalise(domain, short, width, pace)
    const image = await times(domain, false)
    const columns = new Float64Array(image.length)
    for (let i = 0; i < long; i++) for (let j = 0; j < width; j++) columns[j * long + i] = image[i * width + j]!
    const qr = new TallQr(width)
    await qr.fold(columns, long, () => pace(0))
    const values = await singularValues(qr.r, width, () => pace(0))
    return { values: values.subarray(0, ESTIMATED), norm: Math.sqrt(square), unit, isEstimate: true }
  }
}

function scale(numbers: Float64Array, factor: number): void {
  for (let i = 0; i < numbers.length; i++) numbers[i]! *= factor
}

/** Adds multiples of one to four neighbouring rows to a row: four at once load and store it less often. */
function addFour(target: Float64Array, at: number, source: Float64Array, from: number, width: number, a: number, b = 0, c = 0, d = 0): void {
  if (b === 0 && c === 0 && d === 0) {
    for (let i = 0; i < width; i++) target[at + i]! += a * source[from + i]!
    return
  }
  const [second, third, fourth] = [from + width, from + 2 * width, from + 3 * width]
  for (let i = 0; i < width; i++) {
    target[at + i]! += a * source[from + i]! + b * source[second + i]! + (c * source[third + i]! + d * source[fourth + i]!)
  }
}

/** Numbers of a normal distribution; the same ones each time, so that estimates repeat. */
function gaussians(count: number): Float64Array {
  let state = 0x9e3779b9
  const uniform = (): number => {
    state ^= state << 13
    state ^= state >>> 17
    state ^= state << 5
    return ((state >>> 0) + 0.5) / 2 ** 32
  }
  return Float64Array.from({ length: count }, () => Math.sqrt(-2 * Math.log(uniform())) * Math.cos(2 * Math.PI * uniform()))
}
