// Feeds an opening with bytes from a reader.
import type { Opening, SiblingAnswer, Tree } from '../core/tree.js'
import { EspalierError } from '../errors.js'
import type { RangeReader } from '../fetch/range-reader.js'

/** How to open a tree. */
export interface OpenTreeOptions {
  /** The first bytes of the opened file, which are not read again. */
  readonly front: Uint8Array
  readonly signal?: AbortSignal | undefined
  /** Called with the bytes received, and the bytes still known to be needed. */
  readonly onLoaded?: ((loaded: number, more: number) => void) | undefined
  /** Adds a further file to the reader, if there is one with that name. */
  readonly addSibling: (number: number, name: string) => Promise<void>
}

/** Opens a tree. @throws EspalierError of the file or of its source */
export async function openTree(opening: Opening, reader: RangeReader, options: OpenTreeOptions): Promise<Tree> {
  const { signal, front, onLoaded, addSibling } = options
  let loaded = 0
  for (;;) {
    const wanted = opening.wants()
    if (wanted) {
      if (wanted.isSibling) await addSibling(wanted.number, wanted.name)
      opening.answer(wanted.number, reader.has(wanted.number) ? await sizeOf(reader, wanted.number, signal) : MISSING)
      continue
    }
    const need = opening.need()
    if (!need) return opening.finish()
    const end = need.offset + need.length
    const bytes =
      need.file === 0 && end <= front.length
        ? front.subarray(need.offset, end)
        : await reader.readOne(need, { signal, maxRequestBytes: Number.MAX_SAFE_INTEGER })
    opening.feed(need.file, need.offset, bytes)
    loaded += bytes.length
    onLoaded?.(loaded, opening.need()?.length ?? 0)
  }
}

const MISSING: SiblingAnswer = {
  isMissing: true,
  problem: "the checkpoint has bytes in this file, which is missing; put it beside the file that you opened, or pass the option 'siblings'",
}

/** The answer for a further file that the reader has. */
async function sizeOf(reader: RangeReader, file: number, signal: AbortSignal | undefined): Promise<SiblingAnswer> {
  try {
    return { size: await reader.size(signal, file) }
  } catch (error) {
    signal?.throwIfAborted()
    if (error instanceof EspalierError && error.code === 'file_not_found') return MISSING
    return { isMissing: false, problem: error instanceof Error ? error.message : String(error) }
  }
}
