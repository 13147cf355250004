// Finds the first NaN and the first infinity of a tensor.
import type { OnProgress, Tensor } from 'espalier'
import { contiguousRuns } from './blocks.js'
import { cellsOf, layoutOf, toSlice } from './layout.js'
import { toNumbers } from './numbers.js'

const BLOCK_BYTES = 4 << 20

/** The values to find, and the positions found, in C order. */
export interface Specials {
  nan?: number
  inf?: number
}

/** The positions of the first of each kind in `numbers`. */
export function firstSpecials(numbers: Float32Array | Float64Array): Specials {
  const found: Specials = {}
  for (let i = 0; i < numbers.length; i++) {
    const value = numbers[i]!
    // Only for NaN and infinities is x - x not 0.
    if (value - value === 0) continue
    if (Number.isNaN(value)) found.nan ??= i
    else found.inf ??= i
    if (found.nan !== undefined && found.inf !== undefined) break
  }
  return found
}

/** Reads a tensor from its beginning until everything is found, or to its end. */
export async function findSpecials(
  tensor: Tensor,
  wanted: { readonly nan: boolean; readonly inf: boolean },
  signal: AbortSignal,
  onProgress: OnProgress,
): Promise<Specials> {
  const layout = layoutOf(tensor)
  const total = tensor.byteLength
  const cells = cellsOf(layout)
  const found: Specials = {}
  for (const { first, count, ranges } of contiguousRuns(layout, BLOCK_BYTES)) {
    const here = firstSpecials(toNumbers(await tensor.read({ slice: toSlice(layout, ranges), signal })))
    if (here.nan !== undefined) found.nan ??= first + here.nan
    if (here.inf !== undefined) found.inf ??= first + here.inf
    if ((found.nan !== undefined || !wanted.nan) && (found.inf !== undefined || !wanted.inf)) break
    onProgress({ loaded: total * ((first + count) / cells), total })
  }
  return found
}
