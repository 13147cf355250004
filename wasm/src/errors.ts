/** A failure with a code for programs and a sentence for people. `docs/errors.md` lists the codes. */
export class EspalierError extends Error {
  /**
   * @param code snake_case name of the code
   * @param message one sentence: what is wrong, and what to do about it
   * @param offset byte in the file that is to blame, if one is
   * @param path printed key path of the node concerned, or ''
   */
  constructor(
    readonly code: string,
    message: string,
    readonly offset: number | undefined = undefined,
    readonly path: string = '',
  ) {
    super(message);
    this.name = 'EspalierError';
  }
}

/** The error with that code, as the class that belongs to it. */
export function errorFromCode(code: string, message: string, offset?: number, path?: string): EspalierError {
  return new EspalierError(code, message, offset, path);
}
