// Bytes of whatever holds some.

/** The bytes of an ArrayBuffer or of a view of one, not copied; undefined for anything else, and if they were transferred. */
export function bytesOf(value: unknown): Uint8Array | undefined {
  // By what it has, as a buffer of another page is of another class.
  if (typeof (value as ArrayBuffer | null | undefined)?.byteLength !== 'number') return undefined
  try {
    if (!ArrayBuffer.isView(value)) return new Uint8Array(value as ArrayBuffer)
    return new Uint8Array(value.buffer, value.byteOffset, value.byteLength)
  } catch {
    return undefined
  }
}
