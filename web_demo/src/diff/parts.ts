// Splits a tensor into parts that fit in memory.
import type { SliceInput } from 'espalier'

/** Slices that cover a shape once, in C order, each of at most about `most` elements. */
export function* partsOf(shape: readonly number[], most: number): Generator<SliceInput[], void, void> {
  if (shape.some((length) => length === 0)) return
  // The first axis whose single steps are small enough.
  let axis = 0
  const below = (from: number): number => shape.slice(from + 1).reduce((product, length) => product * length, 1)
  while (axis < shape.length && below(axis) > most) axis++
  if (axis >= shape.length) {
    yield []
    return
  }
  const step = Math.max(1, Math.floor(most / below(axis)))
  const index = new Array<number>(axis).fill(0)
  for (;;) {
    for (let start = 0; start < shape[axis]!; start += step) yield [...index, [start, Math.min(start + step, shape[axis]!)]]
    let at = axis - 1
    while (at >= 0 && ++index[at]! === shape[at]!) index[at--] = 0
    if (at < 0) return
  }
}
