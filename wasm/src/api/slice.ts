// Converts JavaScript slices.
import type { SlicePart } from '../core/records.js'
import { errorFromCode } from '../errors.js'

/**
 * A part of a slice: null for the whole axis, [start, stop, step] as in Python (each may be null or left out; the step
 * must be positive), or a single index. The axis of an index is kept, with length 1.
 */
export type SliceInput = null | number | readonly [start?: number | null, stop?: number | null, step?: number | null]

/**
 * Returns the parts of a slice for a tensor of a shape. The core checks the rest.
 * @throws EspalierError invalid_slice
 */
export function parseSlice(slice: readonly SliceInput[], shape: readonly number[], path: () => string): SlicePart[] {
  const fail = (message: string): Error => errorFromCode('invalid_slice', message, { path: path() })
  if (!Array.isArray(slice)) throw fail('a slice must be an array with one part for each axis')
  if (slice.length > shape.length) throw fail(`the slice has ${slice.length} parts and the tensor has ${shape.length} axes`)
  const whole = (bound: number | null | undefined): number | undefined => {
    if (bound === null || bound === undefined) return undefined
    if (!Number.isSafeInteger(bound)) throw fail(`${bound} is not an integer`)
    return bound
  }
  // Not map(), which keeps holes: a missing part must not mean a whole axis.
  return Array.from(slice as readonly SliceInput[], (part, axis) => {
    if (part === null) return { start: undefined, stop: undefined, step: 1 }
    if (Array.isArray(part) && part.length <= 3) return { start: whole(part[0]), stop: whole(part[1]), step: whole(part[2]) ?? 1 }
    if (typeof part !== 'number') throw fail(`the part for axis ${axis} is neither null, an index nor [start, stop, step]`)
    const length = shape[axis] ?? Infinity
    const index = whole(part)!
    if (index < -length || index >= length) throw fail(`index ${index} is beyond axis ${axis}, which has ${length} elements`)
    // The stop after index -1 would be 0, the beginning.
    return { start: index, stop: index === -1 ? undefined : index + 1, step: 1 }
  })
}
