// Computes how far the elements of two tensors are apart, as `espalier diff --stat` does.
import type { Tensor, TensorData } from 'espalier'
import { layoutOf, toSlice } from '../tensor/layout'
import { planSample } from '../tensor/sample-plan'
import { partsOf } from './parts'
import { ProductSum, scale } from './product-sum'

/** Buckets of |delta| by its power of two, from 2^LOWEST on; the first and the last include everything beyond. */
export const LOWEST = -40
export const BUCKETS = 64

/** How two tensors differ. Norms, distances and the cosine cover the pairs of finite elements. */
export interface Deltas {
  readonly elements: number
  /** Elements that differ, including those that cannot be compared. */
  readonly differing: number
  /** Differing elements that have no distance, because one or both are not finite. */
  readonly notComparable: number
  readonly max: number
  readonly mean: number
  /** Euclidean norms of the difference and of the two. */
  readonly deltaNorm: number
  readonly beforeNorm: number
  readonly afterNorm: number
  /** deltaNorm / beforeNorm: 0 without a difference, otherwise Infinity if the first tensor is 0. */
  readonly relative: number
  /** The cosine of the angle between the two; undefined if one of them is 0. */
  readonly cosine: number | undefined
  /** The number of differing elements in each bucket. */
  readonly histogram: Float64Array
}

/** Elements of each tensor in memory at once: at most a chunk of 32-bit numbers, so that the page stays responsive. */
const MOST = 1 << 18
/** Elements that integers and 32-bit floats need no scaled sums for. */
const WIDE = /^(f64|c64|c128)$/

// The bits of a number, for its power of two.
const real = new Float64Array(1)
const words = new Uint32Array(real.buffer)

/** Accumulates deltas, part by part. */
export class DeltaSum {
  #elements = 0
  #differing = 0
  #notComparable = 0
  #max = 0
  #sum = 0
  readonly #delta = new ProductSum()
  readonly #before = new ProductSum()
  readonly #after = new ProductSum()
  readonly #both = new ProductSum()
  readonly #histogram = new Float64Array(BUCKETS)

  /** Adds pairs of real and imaginary parts. */
  addComplex(a: ArrayLike<number>, b: ArrayLike<number>): void {
    this.#elements += a.length / 2
    for (let i = 0; i < a.length; i += 2) {
      const [re, im, re2, im2] = [a[i]!, a[i + 1]!, b[i]!, b[i + 1]!]
      if (Number.isFinite(re) && Number.isFinite(im) && Number.isFinite(re2) && Number.isFinite(im2)) {
        this.#addWide(re, re2)
        this.#addWide(im, im2)
        if (re !== re2 || im !== im2) this.#note(Math.hypot(re - re2, im - im2))
      } else if (!(re === re2 && im === im2) && !(isNaN(re, im) && isNaN(re2, im2))) this.#noteNotComparable()
    }
  }

  /** Adds numbers of the two. Two NaNs count as equal. @param isWide whether their squares may overflow or underflow */
  add(a: ArrayLike<number | bigint>, b: ArrayLike<number | bigint>, isWide = true): void {
    this.#elements += a.length
    if (typeof a[0] === 'bigint') return this.#addIntegers(a as ArrayLike<bigint>, b as ArrayLike<bigint>)
    const [before, after] = [a as ArrayLike<number>, b as ArrayLike<number>]
    const histogram = this.#histogram
    // Local variables: several times as fast as fields.
    let [delta2, before2, after2, both, differing, sum, max] = [0, 0, 0, 0, 0, 0, 0]
    for (let i = 0; i < before.length; i++) {
      const x = before[i]!
      const y = after[i]!
      const delta = x - y
      // Not a number, unless both are finite or their difference overflows.
      if (delta - delta !== 0 && !(isWide && Number.isFinite(x) && Number.isFinite(y))) {
        if (x !== y && !(Number.isNaN(x) && Number.isNaN(y))) this.#noteNotComparable()
        continue
      }
      if (isWide) this.#addWide(x, y)
      else {
        delta2 += delta * delta
        before2 += x * x
        after2 += y * y
        both += x * y
      }
      if (x === y) continue
      const size = Math.abs(delta)
      differing++
      sum += size
      if (size > max) max = size
      histogram[bucketOf(size)]!++
    }
    this.#addSums(delta2, before2, after2, both)
    this.#differing += differing
    this.#sum += sum
    this.#max = Math.max(this.#max, max)
  }

  #addIntegers(a: ArrayLike<bigint>, b: ArrayLike<bigint>): void {
    let [delta2, before2, after2, both] = [0, 0, 0, 0]
    for (let i = 0; i < a.length; i++) {
      // Subtract before the conversion: far from 0 their doubles may be equal.
      const delta = Number(a[i]! - b[i]!)
      const x = Number(a[i]!)
      const y = Number(b[i]!)
      delta2 += delta * delta
      before2 += x * x
      after2 += y * y
      both += x * y
      if (delta !== 0) this.#note(Math.abs(delta))
    }
    this.#addSums(delta2, before2, after2, both)
  }

  #addSums(delta: number, before: number, after: number, both: number): void {
    this.#delta.addSum(delta)
    this.#before.addSum(before)
    this.#after.addSum(after)
    this.#both.addSum(both)
  }

  #addWide(x: number, y: number): void {
    this.#before.add(x, x)
    this.#after.add(y, y)
    this.#both.add(x, y)
    const delta = x - y
    if (Number.isFinite(delta)) this.#delta.add(delta, delta)
    else {
      // Two large numbers of opposite signs: halves have a distance. (2h)^2 = 4 h^2.
      const half = x / 2 - y / 2
      for (let i = 0; i < 4; i++) this.#delta.add(half, half)
    }
  }

  #noteNotComparable(): void {
    this.#differing++
    this.#notComparable++
  }

  /** Adds a differing pair of finite numbers. Their difference may still be infinite. */
  #note(delta: number): void {
    this.#differing++
    this.#sum += delta
    if (delta > this.#max) this.#max = delta
    this.#histogram[bucketOf(delta)]!++
  }

  /** Adds the elements of another sum. */
  merge(other: DeltaSum): void {
    this.#elements += other.#elements
    this.#differing += other.#differing
    this.#notComparable += other.#notComparable
    this.#max = Math.max(this.#max, other.#max)
    this.#sum += other.#sum
    this.#delta.merge(other.#delta)
    this.#before.merge(other.#before)
    this.#after.merge(other.#after)
    this.#both.merge(other.#both)
    for (let i = 0; i < BUCKETS; i++) this.#histogram[i]! += other.#histogram[i]!
  }

  /** The number of elements so far. */
  get elements(): number {
    return this.#elements
  }

  /** Returns the statistics. */
  get result(): Deltas {
    const compared = this.#elements - this.#notComparable
    return {
      elements: this.#elements, differing: this.#differing, notComparable: this.#notComparable, max: this.#max,
      mean: compared > 0 ? this.#sum / compared : 0,
      deltaNorm: this.#delta.root, beforeNorm: this.#before.root, afterNorm: this.#after.root,
      relative: this.#relative, cosine: this.#cosine, histogram: this.#histogram,
    }
  }

  get #relative(): number {
    const [delta, before] = [this.#delta.total, this.#before.total]
    if (delta.value === 0) return 0
    if (before.value === 0) return Infinity
    return scale(Math.sqrt(delta.value) / Math.sqrt(before.value), (delta.exponent - before.exponent) / 2)
  }

  get #cosine(): number | undefined {
    const [before, after, both] = [this.#before.total, this.#after.total, this.#both.total]
    if (before.value === 0 || after.value === 0) return undefined
    const cosine = scale(both.value / (Math.sqrt(before.value) * Math.sqrt(after.value)), both.exponent - (before.exponent + after.exponent) / 2)
    // Only rounding can put it outside.
    return Math.max(-1, Math.min(cosine, 1))
  }
}

/** The bucket of a number above 0, by its exponent; the first one for numbers below the normal range. */
function bucketOf(size: number): number {
  real[0] = size
  const bucket = (words[1]! >>> 20) - 1023 - LOWEST
  return bucket < 0 ? 0 : bucket < BUCKETS ? bucket : BUCKETS - 1
}

function isNaN(re: number, im: number): boolean {
  return Number.isNaN(re) || Number.isNaN(im)
}

/** Which elements to read: all, or a sample of at most 16 MiB, spread over the tensor. */
export type Extent = 'all' | 'sample'

/** The bytes that a comparison reads of each tensor, at most. */
export function bytesToRead(tensor: Tensor, extent: Extent): number {
  if (extent === 'all') return tensor.byteLength
  const layout = layoutOf(tensor)
  return planSample(layout).reduce((sum, { count }) => sum + (count * layout.bits) / 8, 0)
}

/**
 * Reads two tensors of one dtype and shape in parts, and compares them.
 * @throws the signal's reason, or EspalierError: chunk_corrupt, wrong_kind for opaque blocks, those of the source
 */
export async function readDeltas(
  a: Tensor, b: Tensor, signal: AbortSignal, onProgress: (elements: number) => void, extent: Extent = 'all',
): Promise<DeltaSum> {
  const sum = new DeltaSum()
  const layout = layoutOf(a)
  const slices = extent === 'all' ? partsOf(a.shape, MOST) : planSample(layout).map(({ ranges }) => toSlice(layout, ranges))
  for (const slice of slices) {
    const [one, other] = await Promise.all([a.read({ slice, signal }), b.read({ slice, signal })])
    if (one.isComplex) sum.addComplex(numbersOf(one) as ArrayLike<number>, numbersOf(other) as ArrayLike<number>)
    else sum.add(numbersOf(one), numbersOf(other), WIDE.test(one.dtype))
    onProgress(sum.elements)
  }
  return sum
}

/**
 * The numbers themselves if JavaScript has an array for them, otherwise as 32-bit floats, which hold all narrower types
 * exactly.
 */
function numbersOf(part: TensorData): ArrayLike<number | bigint> {
  const { dtype, data } = part
  return /^([iu](8|16|32|64)|f64|c64|c128)$/.test(dtype) ? data : part.toFloat32()
}
