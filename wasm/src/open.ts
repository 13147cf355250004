// Opens checkpoints.
import { Checkpoint } from './api/checkpoint.js'
import { openTree } from './api/open-tree.js'
import { coreAddress, decoderAddress, type CoreInput } from './core/module.js'
import { Core } from './core/core.js'
import { Opening } from './core/tree.js'
import { LocalEngine } from './engine/local.js'
import { WorkerEngine } from './engine/remote.js'
import type { OnProgress } from './engine/run.js'
import { endWorker, isWorker, type WorkerLike } from './engine/start-worker.js'
import { errorFromCode } from './errors.js'
import { RangeReader, type RangeReaderOptions } from './fetch/range-reader.js'
import { asSource, type SourceInput } from './source/as-source.js'
import { BytesSource } from './source/bytes-source.js'
import type { HttpOptions } from './source/http-source.js'
import { orAborted } from './source/abort.js'
import { siblingsOf, type SiblingsInput } from './source/siblings.js'
import { checkNumber } from './source/source.js'

/** How to open a checkpoint: also how requests are made and what is kept of them, for as long as it is open. */
export interface OpenOptions extends HttpOptions, Pick<RangeReaderOptions, 'cache' | 'maxGap' | 'maxRequestBytes'> {
  /** Stops the opening, which then fails with the signal's reason. */
  readonly signal?: AbortSignal | undefined
  /** Told of the bytes of header and index. */
  readonly onProgress?: OnProgress | undefined
  /** Where the WebAssembly core is, if not beside this package: its address, its bytes or the compiled module. */
  readonly core?: CoreInput | undefined
  /** Where the WebAssembly decoder is, likewise. It is fetched at the first read. */
  readonly decoder?: CoreInput | undefined
  /**
   * Where the further files of a checkpoint in several files are. By default they lie beside the URL. Without a file, the
   * rest of the checkpoint can be read.
   */
  readonly siblings?: SiblingsInput | undefined
  /** The longest index, or safetensors header, to accept, in bytes. */
  readonly indexBytes?: number | undefined
  /**
   * Split names at every dot: the key `layers.0.weight` of a flat file becomes the path `layers/~20/weight`, in files of
   * any format. A name that is also the beginning of others stays a value.
   */
  readonly nest?: boolean | undefined
  /**
   * Decode, check and count in a worker: true for a new one, or one that runs `espalier/worker`, which then belongs to
   * the checkpoint, also if opening fails.
   */
  readonly worker?: boolean | WorkerLike | undefined
}

/** The same where there is a worker in any case. */
export interface WorkerOpenOptions extends OpenOptions {
  readonly worker?: true | WorkerLike | undefined
}

/**
 * Opens a checkpoint: reads and checks its tree, and none of its tensors. That takes one request of at most 64 KiB for a
 * typical file, and one more if the index is larger.
 * @param input a URL, a Blob or File, bytes, an open file, or anything with `size()` and `read(offset, length)`. An open
 *   file stays its owner's, who closes it after the checkpoint; the `close()` of a source is called when the checkpoint
 *   is closed, or cannot be opened
 * @throws EspalierError with the code that says what is wrong with the file, or those of the source; invalid_argument
 */
export async function open(input: SourceInput, options?: OpenOptions): Promise<Checkpoint> {
  const { worker, signal, onProgress, cache, maxGap, siblings, nest = false, ...others } = options ?? {}
  let reader: RangeReader | undefined
  let remote: WorkerEngine | undefined
  try {
    if (!(worker === undefined || typeof worker === 'boolean' || isWorker(worker))) {
      throw errorFromCode('invalid_argument', "the option 'worker' is true, false or a Worker")
    }
    const source = asSource(input, { http: others })
    const decoder = (): CoreInput => others.decoder ?? decoderAddress()
    const findSibling = siblingsOf(input, siblings)
    // What is in memory already is viewed, and only pieces would have to be put together.
    const maxRequestBytes = others.maxRequestBytes ?? (source instanceof BytesSource ? Number.MAX_SAFE_INTEGER : undefined)
    reader = new RangeReader(source, { cache, maxGap, maxRequestBytes })
    const indexBytes = others.indexBytes === undefined ? 0 : checkIndexBytes(others.indexBytes)
    const [core, size] = await Promise.all([Core.load(others.core ?? coreAddress(), signal), reader.size(signal)])
    const opening = new Opening(core, size, indexBytes, nest)
    if (worker) remote = await WorkerEngine.start(worker, decoder)
    const tree = await openTree(opening, reader, {
      signal,
      onLoaded: (loaded, more) => onProgress?.({ loaded, total: loaded + more }),
      addSibling: async (number, name) => {
        const found = await orAborted((async () => findSibling(name))(), signal)
        if (found !== undefined) reader!.add(number, asSource(found, { http: { ...others, size: undefined } }), name)
      },
    })
    await remote?.hello(signal)
    return new Checkpoint({ tree, reader, engine: remote ?? new LocalEngine(decoder) })
  } catch (error) {
    if (remote) remote.close()
    else if (isWorker(worker)) endWorker(worker)
    // Not awaited: what comes of it must not hide the reason, nor keep it back.
    reader?.close().catch(() => {})
    throw error
  }
}

/** The bound as the core takes it: 32 bits, of which 0 is no bound. */
function checkIndexBytes(bytes: number): number {
  return Math.min(Math.max(checkNumber(bytes, 'indexBytes'), 1), 2 ** 32 - 1)
}

/**
 * Opens a checkpoint of which a worker decodes, checks and counts, so that this thread stays free. Fetching and the tree
 * stay here, and all else is as with open().
 */
export function openInWorker(input: SourceInput, options?: WorkerOpenOptions): Promise<Checkpoint> {
  const { worker = true } = options ?? {}
  if ((worker as unknown) === false) return Promise.reject(errorFromCode('invalid_argument', 'openInWorker() cannot do without a worker'))
  return open(input, { ...options, worker })
}
