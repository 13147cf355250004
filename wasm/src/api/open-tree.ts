// Feeds an opening with bytes from a reader.
import type { Need, OpeningState, SiblingAnswer, Wanted } from '../core/opening.js'
import type { Tree } from '../core/tree.js'
import { EspalierError } from '../errors.js'
import { Limiter } from '../fetch/limiter.js'
import type { RangeReader } from '../fetch/range-reader.js'

/** A file that is being opened, in this thread or in a worker. */
export interface OpeningSteps {
  state(): OpeningState | Promise<OpeningState>
  answer(file: number, answer: SiblingAnswer): void | Promise<void>
  feed(file: number, offset: number, bytes: Uint8Array): void | Promise<void>
  finish(): Tree | Promise<Tree>
  /** Ends it early. */
  close?(): void
}

/** How to open a tree. */
export interface OpenTreeOptions {
  /** The first bytes of the opened file, which are not read again. */
  readonly front: Uint8Array
  readonly signal?: AbortSignal | undefined
  /** Called with the bytes received, and the bytes still known to be needed. */
  readonly onLoaded?: ((loaded: number, more: number) => void) | undefined
  /** Adds a further file to the reader, if there is one with that name. */
  readonly addSibling: (number: number, name: string) => Promise<void>
  /** Begins anew in a worker, once much is needed: what takes long must not hold up this thread. */
  readonly inWorker?: (() => Promise<OpeningSteps>) | undefined
}

/** An index of more bytes takes longer than a frame, and longer than to copy what a worker makes of it. */
const LONG = 2 ** 22

/** Opens a tree. @throws EspalierError of the file or of its source */
export async function openTree(begun: OpeningSteps, reader: RangeReader, options: OpenTreeOptions): Promise<Tree> {
  let opening = begun
  const inWorker = options.inWorker && (async () => (opening = await options.inWorker!()))
  try {
    return await run(begun, reader, { ...options, inWorker })
  } catch (error) {
    opening.close?.()
    throw error
  }
}

async function run(begun: OpeningSteps, reader: RangeReader, options: OpenTreeOptions): Promise<Tree> {
  const { signal, front, onLoaded, addSibling } = options
  let opening = begun
  let { inWorker } = options
  const finder = new Finder(async ({ number, name, isSibling }) => {
    if (isSibling && !reader.has(number)) await addSibling(number, name)
    return reader.has(number) ? sizeOf(reader, number, signal) : MISSING
  })
  let loaded = 0
  for (;;) {
    const state = await opening.state()
    // Those of many files are fetched together.
    const { wants } = state
    if (wants.length > 0) {
      const answers = await finder.findAll(wants)
      for (const [i, { number }] of wants.entries()) await opening.answer(number, answers[i]!)
      continue
    }
    if (inWorker && total(state.needs) > LONG) {
      opening = await inWorker()
      inWorker = undefined
      loaded = 0
      continue
    }
    const needs = atOnce(state.needs)
    if (needs.length === 0) return opening.finish()
    const isHere = ({ file, offset, length }: Need): boolean => file === 0 && offset + length <= front.length
    const bytes = needs.map(({ offset, length }) => front.subarray(offset, offset + length))
    const absent = needs.flatMap((need, i) => (isHere(need) ? [] : [i]))
    const ranges = absent.map((i) => needs[i]!)
    for await (const read of reader.read(ranges, { signal, maxRequestBytes: Number.MAX_SAFE_INTEGER })) bytes[absent[read.index]!] = read.bytes
    // What is no longer needed after the bytes before, the core ignores.
    for (const [i, { file, offset }] of needs.entries()) await opening.feed(file, offset, bytes[i]!)
    loaded += total(needs)
    onLoaded?.(loaded, total(atOnce((await opening.state()).needs)))
  }
}

/** The first needs, whose bytes lie in memory together; at least one. */
function atOnce(needs: readonly Need[]): readonly Need[] {
  let bytes = 0
  const end = needs.findIndex(({ length }, i) => (bytes += length) > AT_ONCE && i > 0)
  return end < 0 ? needs : needs.slice(0, end)
}

function total(needs: readonly Need[]): number {
  return needs.reduce((sum, { length }) => sum + length, 0)
}

/** Bytes that are fetched before the first of them are fed. */
const AT_ONCE = 2 ** 23

/** Further files that are looked for at once. */
const FILES_AT_ONCE = 32

/**
 * Further files that may fail before no more are looked for. Stops a file that names a thousand others at a server that
 * never answers.
 */
const FAILURES_BORNE = 3

/** Finds further files. @throws EspalierError once more than FAILURES_BORNE cannot be read, although they are there */
class Finder {
  readonly #find: (file: Wanted) => Promise<SiblingAnswer>
  #failures = 0

  constructor(find: (file: Wanted) => Promise<SiblingAnswer>) {
    this.#find = find
  }

  /** The answers about `wanted`, which are some of the files of the checkpoint. */
  async findAll(wanted: readonly Wanted[]): Promise<SiblingAnswer[]> {
    const limiter = new Limiter(FILES_AT_ONCE)
    // Those that still wait when too many have failed do not begin.
    const rest = new AbortController()
    const findOne = async (file: Wanted): Promise<SiblingAnswer> => {
      const answer = await this.#find(file)
      if ('size' in answer || answer.isMissing || ++this.#failures <= FAILURES_BORNE) return answer
      const message = `${this.#failures} further files could not be read, so no more were asked for; of this one: ${answer.problem}`
      const error = new EspalierError('io_error', message, { file: file.name })
      rest.abort(error)
      throw error
    }
    return Promise.all(wanted.map((file) => limiter.run(() => findOne(file), rest.signal)))
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
