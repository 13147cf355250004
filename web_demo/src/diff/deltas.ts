// Computes the differences between the elements of two tensors.
import type { Tensor, TensorData } from 'espalier'
import { partsOf } from './parts'

/** Buckets of |delta| by its power of two, from 2^LOWEST on; the first and the last include everything beyond. */
export const LOWEST = -40
export const BUCKETS = 64

/** Statistics of |a - b| over pairs of finite elements. */
export interface Deltas {
  readonly elements: number
  /** Elements that differ, including those that cannot be compared. */
  readonly differing: number
  /** Differing elements that have no distance, because one or both are not finite. */
  readonly notComparable: number
  readonly max: number
  readonly mean: number
  /** The number of differing elements in each bucket. */
  readonly histogram: Float64Array
}

/** Elements of each tensor in memory at once. */
const MOST = 1 << 20

/** Accumulates deltas, part by part. */
export class DeltaSum {
  #elements = 0
  #differing = 0
  #notComparable = 0
  #max = 0
  #sum = 0
  readonly #histogram = new Float64Array(BUCKETS)

  /** Adds pairs of real and imaginary parts. */
  addComplex(a: ArrayLike<number>, b: ArrayLike<number>): void {
    this.#elements += a.length / 2
    for (let i = 0; i < a.length; i += 2) {
      const parts = [a[i]!, a[i + 1]!, b[i]!, b[i + 1]!] as const
      if (isEqual(parts[0], parts[2]) && isEqual(parts[1], parts[3])) continue
      this.#note(Math.hypot(parts[0] - parts[2], parts[1] - parts[3]), parts.every(Number.isFinite))
    }
  }

  /** Adds numbers of the two. Two NaNs count as equal. */
  add(a: ArrayLike<number | bigint>, b: ArrayLike<number | bigint>): void {
    this.#elements += a.length
    for (let i = 0; i < a.length; i++) {
      const x = a[i]!
      const y = b[i]!
      if (x === y) continue
      // Subtract bigints first: far from 0 their doubles may be equal.
      const delta = typeof x === 'bigint' ? Math.abs(Number(x - (y as bigint))) : Math.abs(x - (y as number))
      if (Number.isNaN(x) && Number.isNaN(y)) continue
      this.#note(delta, typeof x === 'bigint' || (Number.isFinite(x) && Number.isFinite(y)))
    }
  }

  /** Adds a differing pair. The difference of two finite numbers may still be infinite. */
  #note(delta: number, isComparable: boolean): void {
    this.#differing++
    if (!isComparable) {
      this.#notComparable++
      return
    }
    this.#sum += delta
    if (delta > this.#max) this.#max = delta
    const bucket = Math.floor(Math.log2(delta)) - LOWEST
    this.#histogram[Math.max(0, Math.min(bucket, BUCKETS - 1))]!++
  }

  /** Returns the statistics. */
  get result(): Deltas {
    const compared = this.#elements - this.#notComparable
    return {
      elements: this.#elements, differing: this.#differing, notComparable: this.#notComparable, max: this.#max,
      mean: compared > 0 ? this.#sum / compared : 0, histogram: this.#histogram,
    }
  }
}

function isEqual(a: number, b: number): boolean {
  return a === b || (Number.isNaN(a) && Number.isNaN(b))
}

/**
 * Reads two tensors of one dtype and shape in parts, and compares them.
 * @throws the signal's reason, or EspalierError: chunk_corrupt, wrong_kind for opaque blocks, those of the source
 */
export async function readDeltas(a: Tensor, b: Tensor, signal: AbortSignal, onProgress: (elements: number) => void): Promise<Deltas> {
  const sum = new DeltaSum()
  for (const slice of partsOf(a.shape, MOST)) {
    const [one, other] = await Promise.all([a.read({ slice, signal }), b.read({ slice, signal })])
    if (one.isComplex) sum.addComplex(numbersOf(one) as ArrayLike<number>, numbersOf(other) as ArrayLike<number>)
    else sum.add(numbersOf(one), numbersOf(other))
    onProgress(sum.result.elements)
  }
  return sum.result
}

/**
 * The numbers themselves if JavaScript has an array for them, otherwise as 32-bit floats, which hold all narrower types
 * exactly.
 */
function numbersOf(part: TensorData): ArrayLike<number | bigint> {
  const { dtype, data } = part
  return /^([iu](8|16|32|64)|f64|c64|c128)$/.test(dtype) ? data : part.toFloat32()
}
