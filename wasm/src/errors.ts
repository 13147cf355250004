/** A failure with a code for programs and a sentence for people. `docs/errors.md` lists the codes. */
export class EspalierError extends Error {
  override readonly name: string = 'EspalierError'
  /** snake_case name of the code. */
  readonly code: string
  /** Byte in the file that is to blame. */
  readonly offset: number | bigint | undefined
  /** Printed key path of the node concerned. */
  readonly path: string | undefined

  constructor(code: string, message: string, details: { offset?: number | bigint | undefined; path?: string | undefined } = {}) {
    super(message)
    this.code = code
    this.offset = details.offset
    this.path = details.path
  }
}

/** The error of the class that belongs to `code`. */
export function errorFromCode(
  code: string,
  message: string,
  offset?: number | bigint,
  path?: string,
  _cause?: unknown,
): EspalierError {
  return new EspalierError(code, message, { offset, path })
}
