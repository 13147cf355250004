// Opens checkpoints.
import { Checkpoint } from './api/checkpoint.js'
import { coreAddress, type CoreInput } from './core/module.js'
import { Core } from './core/core.js'
import { Opening } from './core/tree.js'
import { LocalEngine } from './engine/local.js'
import { WorkerEngine } from './engine/remote.js'
import type { OnProgress } from './engine/run.js'
import type { WorkerLike } from './engine/start-worker.js'
import { RangeReader, type RangeReaderOptions } from './fetch/range-reader.js'
import { asSource, type SourceInput } from './source/as-source.js'
import { BytesSource } from './source/bytes-source.js'
import type { HttpOptions } from './source/http-source.js'
import { checkNumber } from './source/source.js'

/** How to open a checkpoint: also how requests are made and what is kept of them, for as long as it is open. */
export interface OpenOptions extends HttpOptions, Pick<RangeReaderOptions, 'cache' | 'maxGap' | 'maxRequestBytes'> {
  /** Stops the opening, which then fails with the signal's reason. */
  readonly signal?: AbortSignal | undefined
  /** Told of the bytes of header and index. */
  readonly onProgress?: OnProgress | undefined
  /** Where the WebAssembly core is, if not beside this package: its address, its bytes or the compiled module. */
  readonly core?: CoreInput | undefined
  /** The longest index, or safetensors header, to accept, in bytes. */
  readonly indexBytes?: number | undefined
  /**
   * Decode, check and count in a worker: true for a new one, or one that runs `espalier/worker`, which then belongs to
   * the checkpoint.
   */
  readonly worker?: boolean | WorkerLike | undefined
}

/**
 * Opens a checkpoint: reads and checks its tree, and none of its tensors. That takes one request of at most 64 KiB for a
 * typical file, and one more if the index is larger.
 * @param input a URL, a Blob or File, bytes, a file handle of Node, or anything with `size()` and `read(offset, length)`
 * @throws EspalierError with the code that says what is wrong with the file, or those of the source
 */
export async function open(input: SourceInput, options: OpenOptions = {}): Promise<Checkpoint> {
  const { signal, onProgress, cache, maxGap } = options
  const source = asSource(input, { http: options })
  // What is in memory already is viewed, and only pieces would have to be put together.
  const maxRequestBytes = options.maxRequestBytes ?? (source instanceof BytesSource ? Number.MAX_SAFE_INTEGER : undefined)
  const indexBytes = options.indexBytes === undefined ? 0 : checkIndexBytes(options.indexBytes)
  const reader = new RangeReader(source, { cache, maxGap, maxRequestBytes })
  let remote: WorkerEngine | undefined
  try {
    const [core, size] = await Promise.all([Core.load(options.core ?? coreAddress()), reader.size(signal)])
    const opening = new Opening(core, size, indexBytes)
    if (options.worker) remote = await WorkerEngine.start(core.module, size, indexBytes, options.worker)
    let loaded = 0
    for (let need = opening.need(); need; need = opening.need()) {
      const bytes = await reader.readOne(need.offset, need.length, { signal, maxRequestBytes: Number.MAX_SAFE_INTEGER })
      opening.feed(need.offset, bytes)
      remote?.feed(need.offset, bytes)
      loaded += bytes.length
      onProgress?.({ loaded, total: loaded + (opening.need()?.length ?? 0) })
    }
    const tree = opening.finish()
    await remote?.finish()
    return new Checkpoint({ tree, reader, engine: remote ?? new LocalEngine(tree) })
  } catch (error) {
    remote?.close()
    await reader.close()
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
export function openInWorker(input: SourceInput, options: OpenOptions = {}): Promise<Checkpoint> {
  const { worker } = options
  return open(input, { ...options, worker: typeof worker === 'object' ? worker : true })
}
