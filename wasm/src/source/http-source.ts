/** How to read from a server. */
export interface HttpOptions {
  /** Sent with each request. */
  readonly headers?: HeadersInit | undefined
  /** Used in place of the global `fetch`. */
  readonly fetch?: typeof globalThis.fetch | undefined
}
