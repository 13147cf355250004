/** Part of a file, in bytes. */
export interface ByteRange {
  readonly offset: number
  readonly length: number
}
