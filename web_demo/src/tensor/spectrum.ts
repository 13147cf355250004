// The singular values of a matrix: all of them, or estimates of the largest.
import type { OnProgress, Tensor } from 'espalier'
import { nextTurn } from '../data/slices.js'
import { toNumbers } from './numbers.js'
import { rangeOf, type Plane } from './plane.js'
import type { Range } from './layout.js'
import { orthonormalise, singularValues, TallQr, type Pace } from './svd.js'

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
  readonly values: Float64Array
  /** The square root of the sum of the squares of all elements. */
  readonly norm: number
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
  return isExact(plane) ? exact() : estimate()

  /** Calls `use` with the elements, in parts along one axis. */
  async function eachPart(isByRows: boolean, use: (numbers: ArrayLike<number>, at: (long: number, short: number) => number, range: Range) => Promise<void>): Promise<void> {
    const [long, short] = isByRows ? [plane.rows, plane.columns] : [plane.columns, plane.rows]
    const most = isByRows || canSplitColumns ? Math.max(1, Math.floor(READ_CELLS / short)) : long
    if (Math.min(most, long) * short > MOST_CELLS) throw new Error('This matrix is too large to decompose here.')
    for (let start = 0; start < long; start += most) {
      const range = { start, stop: Math.min(start + most, long), step: 1 }
      const whole = rangeOf({ start: 0, count: short })
      const { slice, rowOffsets, columnOffsets } = isByRows ? plane.part(range, whole) : plane.part(whole, range)
      const numbers = toNumbers(await tensor.read({ slice, signal }))
      for (let i = 0; i < numbers.length; i++) {
        if (!Number.isFinite(numbers[i]!)) throw new Error('It has NaN or infinite elements, so it has no singular values. The Statistics tab finds the first of them.')
      }
      const [longs, shorts] = isByRows ? [rowOffsets, columnOffsets] : [columnOffsets, rowOffsets]
      await use(numbers, (i, j) => longs[i]! + shorts[j]!, range)
    }
  }

  async function exact(): Promise<Spectrum> {
    const isByRows = plane.rows >= plane.columns
    const [long, short] = isByRows ? [plane.rows, plane.columns] : [plane.columns, plane.rows]
    work.total = long * short * short + (4 / 3) * short ** 3 + 128 * short ** 2
    const qr = new TallQr(short)
    let square = 0
    await eachPart(isByRows, async (numbers, at, { start, stop }) => {
      const count = stop - start
      const rows = new Float64Array(count * short)
      for (let j = 0; j < short; j++) {
        for (let i = 0; i < count; i++) {
          const value = numbers[at(i, j)]!
          rows[j * count + i] = value
          square += value * value
        }
        const rest = pace(0)
        if (rest) await rest
      }
      await qr.fold(rows, count, pace)
    })
    return { values: await singularValues(qr.r, short, pace), norm: Math.sqrt(square), isEstimate: false }
  }

  /** Two rounds of subspace iteration from a random projection (Halko, Martinsson and Tropp 2011). */
  async function estimate(): Promise<Spectrum> {
    const isByRows = plane.isRowOuter || !canSplitColumns
    const [long, short] = isByRows ? [plane.rows, plane.columns] : [plane.columns, plane.rows]
    const width = ESTIMATED + SPARE
    work.total = 3 * long * short * width
    let square = 0
    /** The product of the matrix with one of `width` columns. */
    const times = async (other: Float64Array, isFirst: boolean): Promise<Float64Array> => {
      const product = new Float64Array(long * width)
      await eachPart(isByRows, async (numbers, at, { start, stop }) => {
        for (let i = start; i < stop; i++) {
          for (let j = 0; j < short; j++) {
            const value = numbers[at(i - start, j)]!
            if (isFirst) square += value * value
            addScaled(product, i * width, other, j * width, width, value)
          }
          const rest = pace(short * width)
          if (rest) await rest
        }
      })
      return product
    }
    /** The product of the transposed matrix with one of `width` columns. */
    const transposedTimes = async (other: Float64Array): Promise<Float64Array> => {
      const product = new Float64Array(short * width)
      await eachPart(isByRows, async (numbers, at, { start, stop }) => {
        for (let i = start; i < stop; i++) {
          for (let j = 0; j < short; j++) addScaled(product, j * width, other, i * width, width, numbers[at(i - start, j)]!)
          const rest = pace(short * width)
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
    return { values: values.subarray(0, ESTIMATED), norm: Math.sqrt(square), isEstimate: true }
  }
}

function addScaled(target: Float64Array, at: number, source: Float64Array, from: number, count: number, factor: number): void {
  for (let i = 0; i < count; i++) target[at + i]! += factor * source[from + i]!
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
