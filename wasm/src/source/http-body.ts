/** The bytes of a response. */
export interface Body {
  /** As many as came, at most the limit. */
  readonly bytes: Uint8Array
  /** Whether more came. */
  readonly isLonger: boolean
}

/**
 * Reads the body of `response` until its end or until it goes beyond `limit` bytes; then it is cancelled.
 * `onBytes` is told the size of each piece. Rejects if the connection fails.
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
      // Its outcome says nothing about the bytes that are here.
      reader.cancel().catch(() => {})
      return { bytes, isLonger: true }
    }
    bytes.set(value, length)
    length += value.length
  }
  return { bytes: bytes.subarray(0, length), isLonger: false }
}

/** Tells the server that the body is not wanted. */
export function dropBody(response: Response): void {
  // Rejects if it is being read, and then that has failed.
  response.body?.cancel().catch(() => {})
}
