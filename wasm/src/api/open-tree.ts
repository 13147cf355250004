// Feeds an opening with bytes from a reader.
import type { Opening, SiblingAnswer } from '../core/opening.js'
import type { Tree } from '../core/tree.js'
import { EspalierError } from '../errors.js'
import { Limiter } from '../fetch/limiter.js'
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
  const finder = new Finder(async ({ number, name, isSibling }) => {
    if (isSibling) await addSibling(number, name)
    return reader.has(number) ? sizeOf(reader, number, signal) : MISSING
  })
  let loaded = 0
  for (;;) {
    // Those of many files are fetched together.
    const wanted = opening.wants()
    if (wanted.length > 0) {
      const answers = await finder.findAll(wanted)
      wanted.forEach(({ number }, i) => opening.answer(number, answers[i]!))
      continue
    }
    const needs = atOnce(opening.needs())
    if (needs.length === 0) return opening.finish()
    const isHere = ({ file, offset, length }: Need): boolean => file === 0 && offset + length <= front.length
    const bytes = needs.map(({ offset, length }) => front.subarray(offset, offset + length))
    const absent = needs.flatMap((need, i) => (isHere(need) ? [] : [i]))
    const ranges = absent.map((i) => needs[i]!)
    for await (const read of reader.read(ranges, { signal, maxRequestBytes: Number.MAX_SAFE_INTEGER })) bytes[absent[read.index]!] = read.bytes
    // What is no longer needed after the bytes before, the core ignores.
    needs.forEach(({ file, offset }, i) => opening.feed(file, offset, bytes[i]!))
    loaded += total(needs)
    onLoaded?.(loaded, total(atOnce(opening.needs())))
  }
}

type Need = ReturnType<Opening['needs']>[number]

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

type Wanted = ReturnType<Opening['wants']>[number]

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
