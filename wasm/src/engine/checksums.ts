// Plans to compare the checksums that a format has in place of hashes.
import { readExtent } from '../core/records.js'
import { readChecksumInfo } from '../core/work-records.js'
import type { Tree } from '../core/tree.js'
import type { ByteRange } from '../fetch/plan.js'
import { crc32, crc32c } from './crc32.js'

/** The checksums of all files, except for those of made files, which are compared when these are made. */
export class Checksums {
  /** What they cover, in pieces that need not come in order. */
  readonly pieces: readonly ByteRange[]
  readonly count: number
  /** Bytes of tensors without one. */
  readonly unchecked: number
  readonly #tree: Tree
  readonly #handle: number

  constructor(tree: Tree) {
    const { core } = tree
    this.#tree = tree
    this.#handle = core.pointer(core.call.espalier_checksums(tree.handle))
    core.call.espalier_checksums_info(this.#handle, core.out)
    const { pieces, checksums, unchecked } = readChecksumInfo(core.view, core.out)
    this.count = checksums
    this.unchecked = unchecked
    this.pieces = Array.from({ length: pieces }, (_, i) => {
      core.check(core.call.espalier_checksums_piece(this.#handle, i, core.out))
      return readExtent(core.view, core.out)
    })
  }

  /** Takes the bytes of piece `i`. */
  take(i: number, bytes: Uint8Array): void {
    const { core } = this.#tree
    const isCastagnoli = core.call.espalier_checksums_kind(this.#handle, i) === 1
    core.check(core.call.espalier_checksums_feed(this.#handle, i, isCastagnoli ? crc32c(bytes) : crc32(bytes)))
  }

  /** Compares the checksums and finishes a verification of the tree. */
  finish(verification: number): void {
    const { core } = this.#tree
    core.call.espalier_checksums_finish(this.#handle, verification, core.out)
  }

  close(): void {
    const { core } = this.#tree
    // A broken or closed instance has no handles, and its error was already reported.
    if (!core.isBroken) core.call.espalier_checksums_free(this.#handle)
  }
}
