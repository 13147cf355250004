// A file that is being opened: what its tree still needs.
import type { Core } from './core.js'
import { readExtent, readWanted, SIZE } from './records.js'
import { Tree } from './tree.js'

/** The answer for a further file: its size, or the error that prevents reading it. */
export type SiblingAnswer = { readonly size: number } | { readonly isMissing: boolean; readonly problem: string }

/** A further file that needs an answer. */
export interface Wanted {
  readonly number: number
  readonly isSibling: boolean
  readonly name: string
}

/** Bytes that are needed. */
export interface Need {
  readonly file: number
  readonly offset: number
  readonly length: number
}

/** How to begin. */
export interface BeginOptions {
  /** Bytes of the file. */
  readonly size: number
  /** The longest index to accept; 0 for the core's own limit. */
  readonly indexBytes: number
  /** Whether dotted names become nested dicts. */
  readonly nest: boolean
  /** The file's own name, for formats whose further files are named after it. */
  readonly name: string
}

/** What an opening waits for. */
export interface OpeningState {
  readonly wants: readonly Wanted[]
  /** If there are none, and no file is wanted either, it can finish. */
  readonly needs: readonly Need[]
}

/** Begins to open a file; feed it what it needs. */
export class Opening {
  readonly #handle: number
  readonly #fileNames: (string | undefined)[] = []

  constructor(
    readonly core: Core,
    { size, indexBytes, nest, name }: BeginOptions,
  ) {
    this.#handle = core.withText(name, (at, length) =>
      core.pointer(core.call.espalier_open(BigInt(size), indexBytes, Number(nest), at, length)),
    )
  }

  /** What it waits for. */
  state(): OpeningState {
    const wants = this.wants()
    return { wants, needs: wants.length > 0 ? [] : this.needs() }
  }

  /** The further files that need an answer next. */
  wants(): Wanted[] {
    const { core } = this
    const most = Math.floor(SIZE.out / SIZE.wanted)
    const count = Math.min(core.call.espalier_open_wants(this.#handle, core.out, most), most)
    return Array.from({ length: count }, (_, i) => {
      const wanted = readWanted(core.view, core.out + i * SIZE.wanted)
      const name = core.text(wanted.name)
      this.#fileNames[wanted.number] = name
      return { ...wanted, name }
    })
  }

  /** Gives the answer for a wanted file. */
  answer(file: number, answer: SiblingAnswer): void {
    const { core } = this
    if ('size' in answer) return core.check(core.call.espalier_open_answer(this.#handle, file, BigInt(answer.size)))
    core.withText(answer.problem, (at, length) => {
      core.check(core.call.espalier_open_refuse(this.#handle, file, answer.isMissing ? 1 : 0, at, length))
    })
  }

  /** The next bytes that are needed. If there are none, and no file is wanted either, call finish(). */
  needs(): Need[] {
    const { core } = this
    const most = Math.floor(SIZE.out / SIZE.extent)
    const count = Math.min(core.call.espalier_open_needs(this.#handle, core.out, most), most)
    return Array.from({ length: count }, (_, i) => readExtent(core.view, core.out + i * SIZE.extent))
  }

  /** Feeds bytes of a file. @throws EspalierError as soon as they show that the file is bad */
  feed(file: number, offset: number, bytes: Uint8Array): void {
    const { core } = this
    // In pieces: a large index must not lie in the core's memory twice.
    for (let begin = 0; begin < bytes.length; begin += PIECE) {
      const piece = bytes.subarray(begin, begin + PIECE)
      const at = core.put(piece)
      core.check(core.call.espalier_open_feed(this.#handle, file, BigInt(offset + begin), at, piece.length))
    }
  }

  /** Returns the tree after checking all of it. */
  finish(): Tree {
    const { handle, fileNames } = this.end()
    return new Tree(this.core, handle, fileNames)
  }

  /** The same, as the tree's handle and the names of further files. */
  end(): { readonly handle: number; readonly fileNames: readonly (string | undefined)[] } {
    const { core } = this
    const handle = core.pointer(core.call.espalier_open_finish(this.#handle))
    core.call.espalier_open_free(this.#handle)
    return { handle, fileNames: this.#fileNames }
  }
}

const PIECE = 1 << 20
