// Counts of values by their size, small enough to keep for each tensor of each step.

/**
 * Counts by the sign, the exponent and four bits of the mantissa of each value as a 32-bit float: a bucket is at most a
 * sixteenth as wide as its numbers are large. Sorted from the least value to the greatest.
 */
export interface Buckets {
  readonly ids: Int16Array
  readonly counts: Float32Array
}

const SHIFT = 19
/** Buckets of each sign. */
const PER_SIGN = 1 << (31 - SHIFT)

/** The buckets of finite values, and the largest 32-bit float. */
const FINITE = 0x7f800000 >>> SHIFT
const LARGEST = 3.4028234663852886e38

/** The share of the values that may lie outside a chart, and the part of its height that one can still see. */
export const OUTSIDE = 0.001
const FINEST = 64

const word = new Uint32Array(1)
const float = new Float32Array(word.buffer)

/** Counts values. Add what was counted of a tensor in parts to the same counter. */
export class BucketCounter {
  /** By the number of the bucket, from the most negative one on; both zeros are in the middle. */
  readonly #counts = new Float64Array(2 * PER_SIGN)

  add(values: Float32Array): void {
    const bits = new Uint32Array(values.buffer, values.byteOffset, values.length)
    const counts = this.#counts
    for (let i = 0; i < bits.length; i++) {
      const top = bits[i]! >>> SHIFT
      counts[top < PER_SIGN ? PER_SIGN + top : 2 * PER_SIGN - 1 - top]!++
    }
  }

  /**
   * The counts of finite values. Those that no chart could tell from zero are counted as zeros. @param scale by which to
   * multiply the counts, for a sample
   */
  result(scale = 1): Buckets {
    const ids: number[] = []
    const counts: number[] = []
    this.#counts.forEach((count, i) => {
      const id = i - PER_SIGN
      if (count === 0 || !edgesOf(id).every(Number.isFinite)) return
      ids.push(id)
      counts.push(count * scale)
    })
    const least = magnitudeOf({ ids: Int16Array.from(ids), counts: Float32Array.from(counts) }, OUTSIDE) / FINEST
    const isZero = (id: number): boolean => Math.max(...edgesOf(id).map(Math.abs)) < least
    return packed(ids.map((id, i) => [isZero(id) ? Math.sign(id + 0.5) * 0.5 - 0.5 : id, counts[i]!]))
  }
}

/** The least and the greatest value of a bucket. */
export function edgesOf(id: number): readonly [number, number] {
  // -1 holds the negative numbers nearest to zero, 0 the positive ones.
  const size = id >= 0 ? id : -1 - id
  const [near, far] = size < FINITE ? [edge(size), edge(size + 1)] : [Infinity, Infinity]
  return id >= 0 ? [near, far] : [-far, -near]
}

function edge(size: number): number {
  word[0] = size << SHIFT
  // The end of the last bucket of finite values; what lies beyond it begins there.
  return size === FINITE ? LARGEST : float[0]!
}

/** The counts of several together. */
export function sumOf(all: readonly Buckets[]): Buckets {
  if (all.length === 1) return all[0]!
  return packed(all.flatMap(({ ids, counts }) => Array.from(ids, (id, i) => [id, counts[i]!] as const)))
}

function packed(pairs: readonly (readonly [id: number, count: number])[]): Buckets {
  const sums = new Map<number, number>()
  for (const [id, count] of pairs) sums.set(id, (sums.get(id) ?? 0) + count)
  const sorted = [...sums].sort(([a], [b]) => a - b)
  return { ids: Int16Array.from(sorted, ([id]) => id), counts: Float32Array.from(sorted, ([, count]) => count) }
}

/** The magnitude that all but a share of the values stay below. */
export function magnitudeOf({ ids, counts }: Buckets, share: number): number {
  const bySize = Array.from(ids, (id, i) => [Math.max(...edgesOf(id).map(Math.abs)), counts[i]!] as const).sort(([a], [b]) => b - a)
  let left = counts.reduce((sum, count) => sum + count, 0) * share
  for (const [size, count] of bySize) if ((left -= count) < 0) return size
  return 0
}

/** The density in `bins` intervals of equal width from `low` to `high`: each count spreads evenly over its bucket. */
export function densityOf({ ids, counts }: Buckets, low: number, high: number, bins: number): Float64Array {
  const density = new Float64Array(bins)
  const width = (high - low) / bins
  ids.forEach((id, i) => {
    const [from, to] = edgesOf(id)
    const [begin, end] = [(from - low) / width, (to - low) / width]
    // Too narrow to be spread, as those around zero are.
    if (begin === end) {
      if (begin >= 0 && begin < bins) density[Math.floor(begin)]! += counts[i]!
      return
    }
    for (let bin = Math.max(0, Math.floor(begin)); bin < Math.min(bins, Math.ceil(end)); bin++) {
      density[bin]! += (counts[i]! * (Math.min(end, bin + 1) - Math.max(begin, bin))) / (end - begin)
    }
  })
  return density
}
