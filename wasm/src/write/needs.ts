// Brings the bytes of open checkpoints that the pieces of a new file are made of.
import { BytesReader } from '../api/read-bytes.js'
import type { Opened } from '../api/opened.js'
import type { WriteNeed } from '../core/work-records.js'

/** Reads for one write. */
export class NeedsReader {
  readonly #readers: readonly BytesReader[]

  /** @param sources by number, from 1 on */
  constructor(sources: readonly Opened[]) {
    this.#readers = sources.map((opened) => new BytesReader(opened))
  }

  /** Returns the bytes of each need. @throws EspalierError those of Tensor.read() */
  async read(needs: readonly WriteNeed[], signal: AbortSignal): Promise<Uint8Array[]> {
    const results: Uint8Array[] = []
    await Promise.all(
      this.#readers.map(async (reader, i) => {
        const mine = [...needs.keys()].filter((k) => needs[k]!.source === i + 1)
        if (mine.length === 0) return
        const read = await reader.read(mine.map((k) => needs[k]!), signal)
        mine.forEach((k, at) => (results[k] = read[at]!))
      }),
    )
    return results
  }
}
