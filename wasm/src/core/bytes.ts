// Bytes of whatever holds some.

/** The bytes of an ArrayBuffer or of a view of one, not copied; undefined for anything else, and if they were transferred. */
export function bytesOf(value: unknown): Uint8Array | undefined {
  try {
    if (ArrayBuffer.isView(value)) return new Uint8Array(value.buffer, value.byteOffset, value.byteLength)
    // By its name, as a buffer of another page is of another class.
    return /ArrayBuffer]$/.test(Object.prototype.toString.call(value)) ? new Uint8Array(value as ArrayBuffer) : undefined
  } catch {
    return undefined
  }
}
