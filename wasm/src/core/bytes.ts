// Gets the bytes of buffers and views.

/**
 * The bytes of an ArrayBuffer or of a view of one, not copied; undefined for anything else, and for transferred
 * buffers.
 */
export function bytesOf(value: unknown): Uint8Array | undefined {
  try {
    if (ArrayBuffer.isView(value)) return new Uint8Array(value.buffer, value.byteOffset, value.byteLength)
    // Compare the name, because a buffer of another page has another class.
    return /ArrayBuffer]$/.test(Object.prototype.toString.call(value)) ? new Uint8Array(value as ArrayBuffer) : undefined
  } catch {
    return undefined
  }
}
