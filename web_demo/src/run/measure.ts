// What one step says of a tensor. All reading of a run is in measure(): another source of figures can take its place.
import type { Tensor } from 'espalier'
import { bitsOf, layoutOf, toSlice } from '../tensor/layout'
import { toNumbers } from '../tensor/numbers'
import { planSample } from '../tensor/sample-plan'
import { BucketCounter, type Buckets } from './buckets'

/** The figures of a tensor at a step. */
export interface Point {
  readonly elements: number
  /** How many of them were read; the figures of a part are estimates of the whole. */
  readonly read: number
  /** The sum of the squares of the finite values. */
  readonly squares: number
  /** The sum of the squares of the differences from the step before; undefined without such a tensor there. */
  readonly moved: number | undefined
  /** The sum of the squares of the step before, where both are finite. */
  readonly was: number | undefined
  /** NaNs and infinities. */
  readonly bad: number
  /** Undefined where a survey has too many to keep. */
  readonly buckets: Buckets | undefined
}

/** A larger tensor is sampled: this much is a second's work for some hundred tensors. */
const MOST_BYTES = 4 << 20
/** Slices of a sample, each within one chunk of a MiB. */
const SLICES = 4

/** Whether a run has figures of a tensor: of floats only. Indices and masks have no norm. */
export function isMeasured({ dtype, elements, isPlaceholder }: Tensor): boolean {
  return /^b?f\d/.test(dtype) && elements > 0 && !isPlaceholder
}

/** What was read of a tensor, slice by slice. */
export type Values = readonly (Float32Array | Float64Array)[]

/**
 * The figures of a tensor, and what was read for them.
 * @param before the same tensor at the step before
 * @param held what was read of that one, if it is still there: then it is not read again
 */
export async function measure(tensor: Tensor, before: Tensor | undefined, held: Values | undefined, signal: AbortSignal): Promise<{ readonly point: Point; readonly values: Values }> {
  const earlier = before && isSameShape(tensor, before) ? before : undefined
  const counter = new BucketCounter()
  const values: (Float32Array | Float64Array)[] = []
  let [read, squares, moved, was, bad] = [0, 0, 0, 0, 0]
  for (const [i, slice] of slicesOf(tensor).entries()) {
    const options = { signal, ...(slice ? { slice } : {}) }
    const [now, then] = await Promise.all([tensor.read(options).then(toNumbers), earlier && (held?.[i] ?? earlier.read(options).then(toNumbers))])
    values.push(now)
    read += now.length
    counter.add(now instanceof Float32Array ? now : Float32Array.from(now))
    for (let at = 0; at < now.length; at++) {
      const value = now[at]!
      if (!Number.isFinite(value)) {
        bad++
        continue
      }
      squares += value * value
      const old = then ? then[at]! : 0
      if (!Number.isFinite(old)) continue
      moved += (value - old) ** 2
      was += old * old
    }
  }
  const { elements } = tensor
  const scale = elements / read
  return { point: { elements, read, squares: squares * scale, moved: earlier && moved * scale, was: earlier && was * scale, bad, buckets: counter.result(scale) }, values }
}

function isSameShape(a: Tensor, b: Tensor): boolean {
  return String(a.shape) === String(b.shape)
}

function slicesOf(tensor: Tensor): readonly (ReturnType<typeof toSlice> | undefined)[] {
  if ((tensor.elements * bitsOf(tensor.dtype)) / 8 <= MOST_BYTES) return [undefined]
  const layout = layoutOf(tensor)
  const runs = planSample(layout)
  const every = Math.max(1, Math.ceil(runs.length / SLICES))
  return runs.filter((_, i) => i % every === 0).map(({ ranges }) => toSlice(layout, ranges))
}
