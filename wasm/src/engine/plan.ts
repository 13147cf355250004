// What to fetch for a tensor, a slice of one, or a verification.
import type { ByteRange } from '../fetch/plan.js'
import type { ReadRequest } from './engine.js'
import { readChunk, readExtent, readPlan } from '../core/records.js'
import type { Tree } from '../core/tree.js'

/** How to read a tensor, or a slice of it. */
export interface Plan extends ReadRequest {
  /** Bytes of the result, and its shape. */
  readonly bytes: number
  readonly shape: readonly number[]
  /** Where the chunks lie in the files, in the order of the tensor. */
  readonly chunks: readonly ByteRange[]
  /** Stored bytes of all chunks. */
  readonly stored: number
  /** Whether the parts of chunks share no byte of the result. */
  readonly isExclusive: boolean
  /** Whether the stored bytes, one chunk after the other, are the result. */
  readonly isDirect: boolean
}

/**
 * Plans a read.
 * @param accept is told the bytes of the result before the chunks are listed, of which a hostile file has millions
 * @throws EspalierError wrong_kind for a placeholder, invalid_slice
 */
export function planRead(tree: Tree, request: ReadRequest, accept: (bytes: number) => void = () => {}): Plan {
  const { core } = tree
  const handle = tree.read(request.tensor, request.slices)
  try {
    core.call.espalier_read_info(handle, core.out)
    const info = readPlan(core.view, core.out)
    accept(info.bytes)
    const chunks: ByteRange[] = []
    let stored = 0
    let parts = 0
    let isDirect = true
    for (let i = 0; i < info.chunks; i++) {
      core.check(core.call.espalier_read_chunk(handle, i, core.out))
      const chunk = readChunk(core.view, core.out)
      isDirect &&= chunk.isDirect && chunk.resultBegin === stored && chunk.resultBytes === chunk.length
      isDirect &&= i === 0 || (chunk.file === chunks[0]!.file && chunk.offset === chunks[0]!.offset + stored)
      stored += chunk.length
      parts += chunk.resultBytes
      chunks.push({ file: chunk.file, offset: chunk.offset, length: chunk.length })
    }
    return {
      tensor: request.tensor,
      slices: request.slices,
      bytes: info.bytes,
      shape: info.shape,
      chunks,
      stored,
      // The core says it of types below 8 bits only if nothing is sliced.
      isExclusive: info.isExclusive || parts === info.bytes,
      isDirect,
    }
  } finally {
    core.call.espalier_read_free(handle)
  }
}

/** The regions that a verification checks; none for a format without hashes. */
export function planVerify(tree: Tree): ByteRange[] {
  const { core } = tree
  const handle = core.pointer(core.call.espalier_verify(tree.handle))
  const regions = Array.from({ length: core.call.espalier_verify_regions(handle) >>> 0 }, (_, i) => {
    core.check(core.call.espalier_verify_region(handle, i, core.out))
    return readExtent(core.view, core.out)
  })
  core.call.espalier_verify_free(handle)
  return regions
}
