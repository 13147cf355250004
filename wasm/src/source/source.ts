/** Where the bytes of one file come from. */
export interface Source {
  /** Bytes of the file. */
  size(signal?: AbortSignal): Promise<number>
  /** Exactly `length` bytes from `offset` on. */
  read(offset: number, length: number, signal?: AbortSignal): Promise<Uint8Array>
  /** Lets go of what the source holds. */
  close?(): Promise<void>
}
