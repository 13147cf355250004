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

/**
 * What all counters count in, one after the other, by the first bits of a value: its sign comes first. New memory for every
 * tensor would cost more than the counting, and so would a branch by the sign.
 */
const scratch = new Uint32Array(2 * PER_SIGN)

/** Counts values, which may come in parts. */
export class BucketCounter {
  readonly #parts: Float32Array[] = []

  add(values: Float32Array): void {
    this.#parts.push(values)
  }

  /**
   * The counts of finite values. Those that no chart could tell from zero are counted as zeros. @param scale by which to
   * multiply the counts, for a sample
   */
  result(scale = 1): Buckets {
    for (const values of this.#parts) count(new Uint32Array(values.buffer, values.byteOffset, values.length))
    // Without what is infinite or NaN, which comes after the finite of each sign.
    const [found, kept] = [new Int16Array(2 * FINITE), new Float32Array(2 * FINITE)]
    let length = 0
    for (let id = -FINITE; id < FINITE; id++) {
      const here = scratch[id >= 0 ? id : PER_SIGN - 1 - id]!
      if (here === 0) continue
      found[length] = id
      kept[length++] = here * scale
    }
    const [ids, counts] = [found.slice(0, length), kept.slice(0, length)]
    scratch.fill(0)
    return withoutTiny(ids, counts)
  }
}

function count(bits: Uint32Array): void {
  for (let i = 0; i < bits.length; i++) scratch[bits[i]! >>> SHIFT]!++
}

/** The same counts, with what is too small for a chart in the buckets beside zero. */
function withoutTiny(ids: Int16Array, counts: Float32Array): Buckets {
  const least = magnitudeOf({ ids, counts }, OUTSIDE) / FINEST
  // Sorted, so that these are neighbours.
  let [negative, positive, first, end] = [0, 0, ids.length, ids.length]
  for (let i = 0; i < ids.length; i++) {
    if (farOf(ids[i]!) >= least) {
      if (ids[i]! >= 0) {
        end = i
        break
      }
      continue
    }
    first = Math.min(first, i)
    if (ids[i]! < 0) negative += counts[i]!
    else positive += counts[i]!
  }
  if (negative + positive === 0) return { ids, counts }
  const zeros: (readonly [number, number])[] = [[-1, negative] as const, [0, positive] as const].filter(([, count]) => count > 0)
  const length = first + zeros.length + ids.length - end
  const packed = { ids: new Int16Array(length), counts: new Float32Array(length) }
  packed.ids.set(ids.subarray(0, first))
  packed.counts.set(counts.subarray(0, first))
  zeros.forEach(([id, count], i) => {
    packed.ids[first + i] = id
    packed.counts[first + i] = count
  })
  packed.ids.set(ids.subarray(end), first + zeros.length)
  packed.counts.set(counts.subarray(end), first + zeros.length)
  return packed
}

/** The larger magnitude of a bucket's edges. */
function farOf(id: number): number {
  const size = id >= 0 ? id : -1 - id
  return size < FINITE ? edge(size + 1) : Infinity
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
  let sum = 0
  for (let i = 0; i < counts.length; i++) sum += counts[i]!
  let left = sum * share
  // From both ends, the larger magnitude first.
  let [low, high] = [0, ids.length - 1]
  while (low <= high) {
    const [below, above] = [farOf(ids[low]!), farOf(ids[high]!)]
    const at = below > above ? low++ : high--
    if ((left -= counts[at]!) < 0) return Math.max(below, above)
  }
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
