// The CRC-32 of zip archives, and the CRC-32C of TensorFlow's checkpoints.

/**
 * A byte's part of the CRC-32 when up to three bytes follow it in a step: four tables, one after the other. With one
 * byte a step, it takes three times as long. Made when the first checksum of their kind is compared.
 */
const tables = new Map<number, Int32Array>()

function makeTable(polynomial: number): Int32Array {
  const made = new Int32Array(4 * 256)
  for (let byte = 0; byte < 256; byte++) {
    let crc = byte
    for (let bit = 0; bit < 8; bit++) crc = (crc >>> 1) ^ (crc & 1 ? polynomial : 0)
    made[byte] = crc
  }
  for (let i = 256; i < made.length; i++) made[i] = (made[i - 256]! >>> 8) ^ made[made[i - 256]! & 0xff]!
  return made
}

/**
 * The CRC-32 of `bytes`, unsigned. It is in JavaScript: V8 takes 950 MB/s, more than most networks give, and
 * engine.wasm stays without zlib, for pages that read Espalier files.
 */
export function crc32(bytes: Uint8Array): number {
  return crcOf(bytes, 0xedb88320)
}

/** The same with Castagnoli's polynomial. */
export function crc32c(bytes: Uint8Array): number {
  return crcOf(bytes, 0x82f63b78)
}

function crcOf(bytes: Uint8Array, polynomial: number): number {
  let t = tables.get(polynomial)
  if (!t) tables.set(polynomial, (t = makeTable(polynomial)))
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length)
  let crc = ~0
  let at = 0
  for (const last = bytes.length - 4; at <= last; at += 4) {
    crc ^= view.getInt32(at, true)
    crc = t[768 + (crc & 0xff)]! ^ t[512 + ((crc >>> 8) & 0xff)]! ^ t[256 + ((crc >>> 16) & 0xff)]! ^ t[crc >>> 24]!
  }
  for (; at < bytes.length; at++) crc = (crc >>> 8) ^ t[(crc ^ bytes[at]!) & 0xff]!
  return ~crc >>> 0
}
