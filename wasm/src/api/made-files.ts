// Files that a checkpoint has only in another form, such as the deflated entries of a .npz.
import type { Core } from '../core/core.js'
import type { MadeFile } from '../core/made-files.js'
import { readExtent, readText } from '../core/records.js'
import type { Tree } from '../core/tree.js'
import type { RangeReader } from '../fetch/range-reader.js'
import { SharedTask } from '../source/shared-task.js'
import { checkRange, type Source, type Traffic } from '../source/source.js'

/** Bytes of the made files that are kept: what the core allows one of them. */
const KEPT_BYTES = 2 ** 29
/** Bytes of the stored form that are read at once. */
const PIECE_BYTES = 2 ** 22

/** A file in the core's memory. */
interface Made {
  readonly handle: number
  readonly at: number
  readonly length: number
}

/** Makes the files of one tree when they are first read, one at a time, and keeps those read last. */
class Maker {
  readonly core: Core
  readonly #tree: Tree
  readonly #reader: RangeReader
  /** By number; those read last come last. */
  readonly #made = new Map<number, Made>()
  #last: Promise<unknown> = Promise.resolve()

  constructor(tree: Tree, reader: RangeReader) {
    this.core = tree.core
    this.#tree = tree
    this.#reader = reader
  }

  /** A copy of bytes of a file; undefined if it is not there. */
  bytes(number: number, offset: number, length: number): Uint8Array | undefined {
    const made = this.#made.get(number)
    if (!made) return undefined
    this.#made.delete(number)
    this.#made.set(number, made)
    return this.core.bytes.slice(made.at + offset, made.at + offset + length)
  }

  /** Makes a file, after those that others wait for. */
  make(file: MadeFile, signal: AbortSignal): Promise<void> {
    const done = this.#last.then(() => this.#make(file, signal))
    this.#last = done.catch(() => {})
    return done
  }

  async #make({ number, length }: MadeFile, signal: AbortSignal): Promise<void> {
    const { core } = this
    const { call } = core
    signal.throwIfAborted()
    this.#makeRoom(length)
    const handle = core.pointer(call.espalier_make(this.#tree.handle, number))
    try {
      while (call.espalier_make_needs(handle, core.out) !== 0) {
        const need = readExtent(core.view, core.out)
        const bytes = await this.#reader.readOne({ ...need, length: Math.min(need.length, PIECE_BYTES) }, { signal })
        const at = core.put(bytes)
        core.check(call.espalier_make_feed(handle, need.file, BigInt(need.offset), at, bytes.length))
      }
      core.check(call.espalier_make_finish(handle, core.out))
    } catch (error) {
      // A broken instance has nothing to free, and its error must not hide the first one.
      if (!core.isBroken) call.espalier_make_free(handle)
      throw error
    }
    this.#made.set(number, { handle, ...readText(core.view, core.out) })
  }

  /** Drops the files that were not read for longest. */
  #makeRoom(length: number): void {
    let kept = [...this.#made.values()].reduce((sum, made) => sum + made.length, 0)
    for (const [number, made] of this.#made) {
      if (kept + length <= KEPT_BYTES) return
      this.core.call.espalier_make_free(made.handle)
      this.#made.delete(number)
      kept -= made.length
    }
  }
}

/** One made file as a source. Its bytes come from other files of the same reader, which counts those. */
class MadeSource implements Source {
  readonly traffic: Traffic = { requests: 0, bytes: 0 }
  readonly #maker: Maker
  readonly #file: MadeFile
  #making: SharedTask<void> | undefined

  constructor(maker: Maker, file: MadeFile) {
    this.#maker = maker
    this.#file = file
  }

  size(): number {
    return this.#file.length
  }

  async read(offset: number, length: number, signal?: AbortSignal): Promise<Uint8Array> {
    checkRange(offset, length, this.#file.length, this.#file.name)
    for (;;) {
      const bytes = this.#maker.bytes(this.#file.number, offset, length)
      if (bytes) return bytes
      // Failures are not kept: the network may be back. Nor is success: the file may be dropped later.
      if (!this.#making || this.#making.isDead) this.#making = new SharedTask((shared) => this.#maker.make(this.#file, shared))
      const making = this.#making
      await making.wait(signal)
      if (this.#making === making) this.#making = undefined
    }
  }
}

/** Adds the files of `tree` that must be made to its reader. */
export function addMadeFiles(tree: Tree, reader: RangeReader): void {
  const maker = new Maker(tree, reader)
  for (const file of tree.madeFiles) reader.add(file.number, new MadeSource(maker, file), file.name, { isMade: true })
}
