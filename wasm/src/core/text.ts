// Encodes and decodes UTF-8, the encoding of all text in the core.

// A byte order mark is ordinary text: without ignoreBOM it would vanish from keys.
const decoder = new TextDecoder('utf-8', { ignoreBOM: true })
const encoder = new TextEncoder()

/** Up to this many bytes, building the string by hand is faster than a call of TextDecoder. */
const SHORT = 24

/** The text of bytes `begin` to `begin + length`. Bytes that are not UTF-8 become U+FFFD. */
export function decodeText(bytes: Uint8Array, begin: number, length: number): string {
  if (length <= SHORT) {
    let text = ''
    let i = begin
    for (; i < begin + length; i++) {
      const byte = bytes[i]!
      if (byte > 0x7f) break
      text += String.fromCharCode(byte)
    }
    if (i === begin + length) return text
  }
  return decoder.decode(bytes.subarray(begin, begin + length))
}

/**
 * Writes a text at `begin` and returns its length in bytes. There must be three bytes for each UTF-16 unit.
 */
export function encodeTextInto(text: string, bytes: Uint8Array, begin: number): number {
  if (text.length <= SHORT) {
    let i = 0
    for (; i < text.length; i++) {
      const unit = text.charCodeAt(i)
      if (unit > 0x7f) break
      bytes[begin + i] = unit
    }
    if (i === text.length) return i
  }
  return encoder.encodeInto(text, bytes.subarray(begin, begin + 3 * text.length)).written
}

/** The bytes of a text. A lone surrogate becomes U+FFFD; see isWellFormed(). */
export function encodeText(text: string): Uint8Array {
  return encoder.encode(text)
}

/** Whether a text is valid Unicode, without unpaired surrogates. */
export function isWellFormed(text: string): boolean {
  return !/\p{Surrogate}/u.test(text)
}
