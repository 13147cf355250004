/** The bytes of a response. */
export interface Body {
  /** The received bytes, at most the limit. */
  readonly bytes: Uint8Array
  /** Whether there were more. */
  readonly isLonger: boolean
}

/**
 * Reads the body of `response` to its end, or cancels it beyond `limit` bytes. Calls `onBytes` with the size of each
 * piece. Rejects if the connection fails.
 */
export async function readBody(response: Response, limit: number, onBytes: (count: number) => void): Promise<Body> {
  const bytes = new Uint8Array(limit)
  let length = 0
  const reader = response.body?.getReader()
  while (reader) {
    const { done, value } = await reader.read()
    if (done) break
    onBytes(value.length)
    const room = limit - length
    if (value.length > room) {
      bytes.set(value.subarray(0, room), length)
      // Its outcome does not affect the received bytes.
      reader.cancel().catch(() => {})
      return { bytes, isLonger: true }
    }
    bytes.set(value, length)
    length += value.length
  }
  return { bytes: bytes.subarray(0, length), isLonger: false }
}

/** Cancels the body. */
export function dropBody(response: Response): void {
  // Rejects if the body is being read; that read has then failed.
  response.body?.cancel().catch(() => {})
}
