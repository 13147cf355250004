// Takes steps of the core that need bytes of open checkpoints, and brings these a few steps ahead.
import type { Core } from '../core/core.js'
import { readWriteNeeds, type WriteNeed } from '../core/work-records.js'
import { takingTurns } from '../engine/run.js'
import { loadNeeds } from '../later.js'
import type { Builder } from './build.js'
import type { NeedsReader } from './needs.js'

/** Groups of steps whose needs are read ahead: enough to keep a source busy, with a few MiB. */
const AHEAD = 3
/** Steps that need no more bytes than this are a group, of this many steps at most: what many small tensors need is read together. */
const GROUP_BYTES = 2 ** 21
const MOST_STEPS = 256
/** The number of the code invalid_tree. */
const INVALID_TREE = 46

interface Step {
  readonly needs: readonly WriteNeed[]
  /** Bytes that the step is about. */
  readonly bytes: number
}

/** Steps one after the other. */
interface Group {
  readonly steps: readonly Step[]
  /** Of all their needs. */
  readonly data: Promise<Uint8Array[]>
}

/** The steps of one write, whose tree is built. */
export class Steps {
  readonly #stop = new AbortController()
  readonly #abort = (): void => this.#stop.abort(this.signal?.reason)
  readonly #arrays: readonly Uint8Array[]
  #reader: NeedsReader | undefined
  /** Those of the step that is taken, and the one that was asked for last. */
  #needs: readonly WriteNeed[] = []
  #data: readonly Uint8Array[] = []
  #at = 0

  constructor(
    readonly core: Core,
    readonly builder: Builder,
    readonly signal: AbortSignal | undefined,
  ) {
    this.#arrays = builder.data
    signal?.addEventListener('abort', this.#abort)
    core.produce = (source, number, isStored, offset, out, length) =>
      source === 0 ? this.#copyArray(number >>> 0, Number(offset), out, length) : this.#produce(source >>> 0, number >>> 0, isStored !== 0, Number(offset), out, length)
  }

  /**
   * Takes `count` steps, one after the other.
   * @param tellNeeds a call of the core that leaves the `WriteNeeds` of a step at `core.out`
   * @param step takes the step; `bytes` are those of its `WriteNeeds`
   */
  async run(count: number, tellNeeds: (i: number) => number, step: (i: number, bytes: number) => void | Promise<void>): Promise<void> {
    const { sources } = this.builder
    if (sources.length > 0) this.#reader ??= new (await loadNeeds()).NeedsReader(sources)
    const coming: Group[] = []
    const turn = takingTurns(this.signal)
    let next = 0
    for (let i = 0; i < count; ) {
      while (coming.length < AHEAD && next < count) {
        const group = this.#start(tellNeeds, next, count)
        next += group.steps.length
        coming.push(group)
      }
      const { steps, data } = coming.shift()!
      const all = await data
      let from = 0
      for (const { needs, bytes } of steps) {
        this.#data = all.slice(from, (from += needs.length))
        this.#needs = needs
        this.#at = 0
        await step(i++, bytes)
        this.signal?.throwIfAborted()
        await turn()
      }
    }
  }

  #start(tellNeeds: (i: number) => number, begin: number, count: number): Group {
    const { core } = this
    const steps: Step[] = []
    const all: WriteNeed[] = []
    for (let total = 0, i = begin; i < count && steps.length < MOST_STEPS && total < GROUP_BYTES; i++) {
      core.check(tellNeeds(i))
      const { needs, bytes } = readWriteNeeds(core.view, core.out)
      for (const need of needs) {
        all.push(need)
        total += need.length
      }
      steps.push({ needs, bytes })
    }
    const data = all.length === 0 ? Promise.resolve([]) : this.#reader!.read(all, this.#stop.signal)
    // It is awaited later, unless another failure ends the write first.
    data.catch(() => {})
    return { steps, data }
  }

  /** The status of a copy of an array's bytes into the core. */
  #copyArray(number: number, from: number, out: number, length: number): number {
    const data = this.#arrays[number]!
    // The sink may have transferred or shrunk it; its length is then 0, and subarray() throws.
    if (data.length < from + length) return INVALID_TREE
    this.core.bytes.set(data.subarray(from, from + length), out >>> 0)
    return 0
  }

  /** See `espalier_produce`. */
  #produce(source: number, number: number, isStored: boolean, offset: number, out: number, length: number): number {
    for (; this.#at < this.#needs.length; this.#at++) {
      const need = this.#needs[this.#at]!
      const begin = offset - need.offset
      if (need.source !== source || need.number !== number || need.isStored !== isStored || begin < 0 || begin + length > need.length) continue
      this.core.bytes.set(this.#data[this.#at]!.subarray(begin, begin + length), out >>> 0)
      return 0
    }
    return INVALID_TREE
  }

  /** Ends what is still being read. */
  close(): void {
    this.signal?.removeEventListener('abort', this.#abort)
    this.#stop.abort()
  }
}
