// What one step says of a tensor.
import type { Tensor, TensorData } from 'espalier'
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
  readonly nan: number
  /** Infinities of either sign. */
  readonly inf: number
  /** NaNs, and infinities that are no mask's. */
  readonly bad: number
  /** Undefined where a survey has too many to keep. */
  readonly buckets: Buckets | undefined
  /** Its shape at the step before and now, if they differ: then there is no change to measure. */
  readonly reshaped?: Reshaped | undefined
}

/** Another shape than at the step before. */
export interface Reshaped {
  readonly before: readonly number[]
  readonly after: readonly number[]
}

/** A larger tensor is sampled: this much is a second's work for some hundred tensors. */
const MOST_BYTES = 4 << 20
/** Slices of a sample, each within one chunk of a MiB. */
const SLICES = 4

/** Of a mask, one of so many elements is -Inf, as in src/espalier/health. */
const ONE_OF_MASK = 10

/** Whether a run has figures of a tensor: of floats only. Indices and masks have no norm. */
export function isMeasured({ dtype, elements, isPlaceholder }: Tensor): boolean {
  return /^b?f\d/.test(dtype) && elements > 0 && !isPlaceholder
}

/** What was read of a tensor, slice by slice. */
export type Values = readonly (Float32Array | Float64Array)[]

/** What figures need to know of a tensor. */
export type Shaped = Pick<Tensor, 'dtype' | 'shape' | 'elements' | 'block'>

/** The parts of a tensor that are read: undefined for all of it. */
export function slicesOf(tensor: Shaped): readonly (ReturnType<typeof toSlice> | undefined)[] {
  if (bytesOf(tensor) <= MOST_BYTES) return [undefined]
  const layout = layoutOf(tensor)
  const runs = planSample(layout)
  const every = Math.max(1, Math.ceil(runs.length / SLICES))
  return runs.filter((_, i) => i % every === 0).map(({ ranges }) => toSlice(layout, ranges))
}

/** Bytes of a tensor that are read. */
export function costOf(tensor: Shaped): number {
  return Math.min(bytesOf(tensor), MOST_BYTES)
}

/** What is read of a tensor. */
export async function valuesOf(tensor: Tensor, signal: AbortSignal): Promise<Values> {
  const values: (Float32Array | Float64Array)[] = []
  for (const slice of slicesOf(tensor)) values.push(numbersOf(await tensor.read({ signal, ...(slice ? { slice } : {}) })))
  return values
}

export function numbersOf(data: TensorData): Float32Array | Float64Array {
  return toNumbers(data)
}

/** The sum of the squares; not finite if a value is not, or is too large. Without a branch: this is most of the work of reading a run. */
function squaresOf(now: Float32Array | Float64Array): number {
  let squares = 0
  for (let at = 0; at < now.length; at++) {
    const value = now[at]!
    squares += value * value
  }
  return squares
}

/** The sums of the squares of the changes, and of the values before. */
function changesOf(now: Float32Array | Float64Array, then: Float32Array | Float64Array): readonly [moved: number, was: number] {
  let [moved, was] = [0, 0]
  for (let at = 0; at < now.length; at++) {
    const old = then[at]!
    const change = now[at]! - old
    moved += change * change
    was += old * old
  }
  return [moved, was]
}

/** The figures of what was read of a tensor. @param before what was read of it at the step before, slice by slice alike */
export function pointOf({ elements, shape }: Shaped, values: Values, before: Values | undefined): Point {
  const counter = new BucketCounter()
  let [read, squares, moved, was, nan, inf, above, low, high] = [0, 0, 0, 0, 0, 0, 0, Infinity, -Infinity]
  for (const [i, now] of values.entries()) {
    const then = before?.[i]
    read += now.length
    counter.add(now instanceof Float32Array ? now : Float32Array.from(now))
    const quick = squaresOf(now)
    if (Number.isFinite(quick)) squares += quick
    else {
      for (const value of now) {
        if (Number.isFinite(value)) {
          squares += value * value
          low = Math.min(low, value)
          high = Math.max(high, value)
        } else if (Number.isNaN(value)) nan++
        else {
          inf++
          if (value > 0) above++
        }
      }
    }
    if (!then) continue
    const [change, old] = changesOf(now, then)
    if (Number.isFinite(change) && Number.isFinite(old)) {
      moved += change
      was += old
    } else {
      for (let at = 0; at < now.length; at++) {
        if (!Number.isFinite(now[at]!) || !Number.isFinite(then[at]!)) continue
        moved += (now[at]! - then[at]!) ** 2
        was += then[at]! ** 2
      }
    }
  }
  const scale = elements / read
  const isMask = nan === 0 && above === 0 && inf > 1 && (low >= high || inf * ONE_OF_MASK >= read)
  // Such as a best loss before anything is observed.
  const isUnset = inf === read && shape.length < 2
  return {
    elements, read, squares: squares * scale, moved: before && moved * scale, was: before && was * scale,
    nan, inf, bad: isMask || isUnset ? nan : nan + inf, buckets: counter.result(scale),
  }
}

/** Whether the values of a tensor can be compared with those of another one, element by element. */
export function isAlike(a: Shaped, b: Shaped): boolean {
  // Slices depend on the type, too.
  return isSameShape(a.shape, b.shape) && (a.dtype === b.dtype || (slicesOf(a)[0] === undefined && slicesOf(b)[0] === undefined))
}

/** Both shapes of a tensor, if they differ. */
export function reshapedOf({ shape: after }: Pick<Tensor, 'shape'>, { shape: before }: Pick<Tensor, 'shape'>): Reshaped | undefined {
  return isSameShape(after, before) ? undefined : { before, after }
}

function isSameShape(a: readonly number[], b: readonly number[]): boolean {
  return a.length === b.length && a.every((length, axis) => length === b[axis])
}

function bytesOf({ elements, dtype }: Shaped): number {
  return (elements * bitsOf(dtype)) / 8
}
