// Statistics of a sample, in the form of the library's statistics of whole tensors.
import { Histogram, type TensorData, type TensorStats } from 'espalier'
import { toNumbers } from './numbers.js'

const float = new Float32Array(1)
const word = new Uint32Array(float.buffer)
const LARGEST = 3.4028234663852886e38
/** The bucket of infinity. */
const PAST = 0x7f80
const SMALLEST = 2 ** -149

/** Accumulates elements and returns their statistics. */
export class SampleStatistics {
  #finite = 0
  #zeros = 0
  #nan = 0
  #inf = 0
  #min: number | bigint | undefined
  #max: number | bigint | undefined
  #mean = 0
  /** Sum of the squares of the distances to the mean. */
  #squares = 0
  /**
   * By the upper 16 bits of the value as a float: a bucket's width is at most 1/128 of its numbers' size, as in
   * stats().
   */
  readonly #counts = new Float64Array(1 << 16)

  /** Adds elements. */
  add(data: TensorData): void {
    const { data: raw } = data
    const bigints = raw instanceof BigInt64Array || raw instanceof BigUint64Array ? raw : undefined
    const numbers = toNumbers(data)
    for (let i = 0; i < numbers.length; i++) {
      const value = numbers[i]!
      if (!Number.isFinite(value)) {
        if (Number.isNaN(value)) this.#nan++
        else this.#inf++
        continue
      }
      if (value === 0) this.#zeros++
      const delta = value - this.#mean
      this.#mean += delta / ++this.#finite
      this.#squares += delta * (value - this.#mean)
      this.#counts[bucketOf(value)]!++
      const exact = bigints ? bigints[i]! : value
      if (this.#min === undefined || exact < this.#min) this.#min = exact
      if (this.#max === undefined || exact > this.#max) this.#max = exact
    }
  }

  /** The statistics so far. */
  result(): TensorStats {
    const some = this.#finite > 0
    return {
      finite: this.#finite,
      zeros: this.#zeros,
      nan: this.#nan,
      inf: this.#inf,
      min: small(this.#min),
      max: small(this.#max),
      mean: some ? this.#mean : undefined,
      std: some ? Math.sqrt(this.#squares / this.#finite) : undefined,
      histogram: this.#histogram(),
    }
  }

  #histogram(): Histogram {
    const lower: number[] = []
    const upper: number[] = []
    const counts: number[] = []
    const take = (bucket: number, isNegative: boolean): void => {
      const count = this.#counts[bucket]!
      if (count === 0) return
      const near = edge(bucket & 0x7fff)
      const size = (bucket & 0x7fff) + 1
      // The outermost bucket also has the doubles beyond the float range.
      const far = bucket === 0 ? 0 : size < PAST ? edge(size) : Math.max(LARGEST, Math.abs(Number(isNegative ? this.#min : this.#max)))
      lower.push(isNegative ? -far : near)
      upper.push(isNegative ? -near : far)
      counts.push(count)
    }
    // Negative numbers come first, by falling magnitude.
    for (let bucket = 0xffff; bucket >= 0x8000; bucket--) take(bucket, true)
    for (let bucket = 0; bucket < 0x8000; bucket++) take(bucket, false)
    return new Histogram(Float64Array.from(lower), Float64Array.from(upper), Float64Array.from(counts))
  }
}

function bucketOf(value: number): number {
  if (value === 0) return 0
  const size = Math.abs(value)
  // Doubles beyond the float range belong to the outermost buckets, and only zeros to the zero bucket.
  float[0] = Math.min(Math.max(size, SMALLEST), LARGEST)
  // Numbers between 0 and the first edge belong to the bucket after it.
  return Math.max(word[0]! >>> 16, 1) | (value < 0 ? 0x8000 : 0)
}

function edge(bucket: number): number {
  word[0] = bucket << 16
  return float[0]!
}

function small(value: number | bigint | undefined): number | bigint | undefined {
  return typeof value === 'bigint' && Number.isSafeInteger(Number(value)) ? Number(value) : value
}
