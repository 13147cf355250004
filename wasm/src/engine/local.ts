// The engine that works in this thread.
import { readHistogram, readPiece, readReport, readStatistics } from '../core/records.js'
import { DTYPES } from '../core/names.js'
import type { Tree } from '../core/tree.js'
import type { EspalierError } from '../errors.js'
import type { Engine, ReadJob, ReadRequest, StatisticsJob, VerifyJob, VerifyReport } from './engine.js'
import type { StatisticsResult } from './statistics.js'

/** Decodes with the instance that holds the tree. */
export class LocalEngine implements Engine {

  constructor(readonly tree: Tree) {}

  read(request: ReadRequest): ReadJob {
    return new LocalRead(this.tree, request)
  }

  statistics(request: ReadRequest): StatisticsJob {
    return new LocalStatistics(this.tree, request)
  }

  verify(): VerifyJob {
    return new LocalVerify(this.tree)
  }

  close(): void {
    // The instance goes when nobody holds it any more.
  }
}

class LocalRead implements ReadJob {
  readonly #handle: number

  constructor(
    readonly tree: Tree,
    request: ReadRequest,
  ) {
    this.#handle = tree.read(request.tensor, request.slices)
  }

  /** Decodes a chunk, and says where its part of the result lies in the core's memory until the next call. */
  decode(i: number, stored: Uint8Array): { at: number; length: number; offset: number; isStored: boolean } {
    const { core } = this.tree
    const at = core.put(stored)
    core.check(core.call.espalier_read_deliver(this.#handle, i, at, stored.length, core.out))
    const piece = readPiece(core.view, core.out)
    return { ...piece, isStored: piece.at === at && piece.length === stored.length }
  }

  deliver(i: number, stored: Uint8Array, take: (piece: Uint8Array, offset: number) => void): void {
    const { at, length, offset, isStored } = this.decode(i, stored)
    take(isStored ? stored : this.tree.core.bytes.subarray(at, at + length), offset)
  }

  check(i: number, stored: Uint8Array): void {
    this.decode(i, stored)
  }

  close(): void {
    free(this.tree, () => this.tree.core.call.espalier_read_free(this.#handle))
  }
}

class LocalStatistics implements StatisticsJob {
  readonly #read: LocalRead
  readonly #handle: number

  constructor(
    readonly tree: Tree,
    request: ReadRequest,
  ) {
    const dtype = DTYPES.indexOf(tree.tensor(request.tensor).dtype)
    this.#read = new LocalRead(tree, request)
    this.#handle = tree.core.pointer(tree.core.call.espalier_statistics(dtype))
  }

  add(i: number, stored: Uint8Array): void {
    const { core } = this.tree
    const { at, length } = this.#read.decode(i, stored)
    core.call.espalier_statistics_add(this.#handle, at, length)
  }

  result(): StatisticsResult {
    const { core } = this.tree
    core.call.espalier_statistics_result(this.#handle, core.out)
    const numbers = readStatistics(core.view, core.out)
    core.call.espalier_statistics_histogram(this.#handle, core.out)
    return { ...numbers, ...readHistogram(core.view, core.out) }
  }

  close(): void {
    this.#read.close()
    free(this.tree, () => this.tree.core.call.espalier_statistics_free(this.#handle))
  }
}

class LocalVerify implements VerifyJob {
  readonly #handle: number

  constructor(readonly tree: Tree) {
    this.#handle = tree.core.pointer(tree.core.call.espalier_verify(tree.handle))
  }

  feed(i: number, bytes: Uint8Array): number {
    const { core } = this.tree
    core.check(core.call.espalier_verify_feed(this.#handle, i, core.put(bytes), bytes.length))
    return core.call.espalier_verify_damaged(this.#handle) >>> 0
  }

  finish(): VerifyReport {
    const { core } = this.tree
    core.check(core.call.espalier_verify_finish(this.#handle, core.out))
    const { hasHashes, listed, chunks, bytes, errors: errorCount } = readReport(core.view, core.out)
    const errors: EspalierError[] = []
    for (let i = 0; i < listed; i++) {
      core.check(core.call.espalier_verify_error(this.#handle, i, core.out))
      errors.push(core.failure(core.out))
    }
    return { ok: errorCount === 0, hasHashes, chunks, bytes, errorCount, errors }
  }

  close(): void {
    free(this.tree, () => this.tree.core.call.espalier_verify_free(this.#handle))
  }
}

/** Frees a handle. An instance that is broken or closed has none, and its error was already told. */
function free(tree: Tree, release: () => void): void {
  if (!tree.core.isBroken) release()
}
