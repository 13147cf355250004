// Formats elements as exact text.
import type { Block, DType, TensorData } from 'espalier'

/** Text of a double: the fewest digits that read back as the same number. */
export function doubleText(value: number): string {
  if (Number.isNaN(value)) return 'NaN'
  if (value === Infinity) return 'Inf'
  if (value === -Infinity) return '-Inf'
  return Object.is(value, -0) ? '-0' : String(value)
}

/** Text of a float of 32 bits, or of fewer: the fewest digits that read back as the same float of 32 bits. */
export function floatText(value: number): string {
  if (!Number.isFinite(value) || Number.isInteger(value)) return doubleText(value)
  for (let digits = 1; digits < 9; digits++) {
    const text = value.toPrecision(digits)
    if (Math.fround(Number(text)) === value) return String(Number(text))
  }
  return String(Number(value.toPrecision(9)))
}

/** Returns a function for the text of a number that is an element of a dtype. */
export function numberTextOf(dtype: DType): (value: number) => string {
  if (dtype === 'bool') return (value) => (value ? 'true' : 'false')
  return /^(f64|c128|[iu](32|64))$/.test(dtype) ? doubleText : floatText
}

/** Returns a function for the text of each element of `data`, or of each block for dtype opaque. */
export function textsOf(data: TensorData, block?: Block): (position: number) => string {
  const { dtype, data: raw } = data
  if (dtype === 'opaque') {
    const size = block?.bytes ?? 1
    return (i) => hexText((raw as Uint8Array).subarray(i * size, (i + 1) * size))
  }
  if (dtype === 'bool') return (i) => (raw[i] ? 'true' : 'false')
  if (data.isComplex) {
    const part = raw instanceof Float32Array ? floatText : doubleText
    return (i) => {
      const imaginary = part(Number(raw[2 * i + 1]))
      return `${part(Number(raw[2 * i]))}${/^-/.test(imaginary) ? '' : '+'}${imaginary}j`
    }
  }
  if (dtype === 'f64') return (i) => doubleText(Number(raw[i]))
  if (/^[iu](8|16|32|64)$/.test(dtype)) return (i) => String(raw[i])
  const numbers = data.toFloat32()
  return (i) => floatText(numbers[i]!)
}

/** Bytes of a block to show. */
const MOST_HEX = 256

/** Bytes as hex digits, in groups of four bytes. */
export function hexText(bytes: Uint8Array): string {
  let text = ''
  // A block may have as many bytes as the file.
  bytes.subarray(0, MOST_HEX).forEach((byte, i) => {
    text += (i > 0 && i % 4 === 0 ? ' ' : '') + byte.toString(16).padStart(2, '0')
  })
  return bytes.length > MOST_HEX ? `${text} … ${bytes.length - MOST_HEX} bytes more` : text
}
