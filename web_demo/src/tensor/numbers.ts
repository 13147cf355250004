// Converts elements to numbers for drawing and statistics.
import type { TensorData } from 'espalier'

/**
 * The elements as numbers; complex ones as magnitudes, integers of 64 bits rounded to doubles.
 * @throws EspalierError wrong_kind for opaque blocks
 */
export function toNumbers(data: TensorData): Float32Array | Float64Array {
  const { data: raw } = data
  if (data.isComplex) {
    const parts = raw as Float32Array | Float64Array
    const magnitudes = new Float64Array(parts.length / 2)
    for (let i = 0; i < magnitudes.length; i++) magnitudes[i] = Math.hypot(parts[2 * i]!, parts[2 * i + 1]!)
    return magnitudes
  }
  if (raw instanceof Float64Array) return raw
  if (raw instanceof BigInt64Array || raw instanceof BigUint64Array) {
    const numbers = new Float64Array(raw.length)
    for (let i = 0; i < numbers.length; i++) numbers[i] = Number(raw[i])
    return numbers
  }
  // A 32-bit float cannot hold every 32-bit integer.
  if (raw instanceof Int32Array || raw instanceof Uint32Array) return Float64Array.from(raw)
  return data.toFloat32()
}
