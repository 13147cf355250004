// Opens checkpoints.
import { Checkpoint } from './api/checkpoint.js'
import { openTree } from './api/open-tree.js'
import { FRONT_BYTES, likelyOpener, openerOf, type Opener } from './core/choose.js'
import { allCoreAddress, coreAddress, engineAddress, type CoreInput } from './core/module.js'
import { Core } from './core/core.js'
import { Opening } from './core/opening.js'
import type { Tree } from './core/tree.js'
import { LocalEngine } from './engine/local.js'
import type { WorkerEngine } from './engine/remote.js'
import type { OnProgress } from './engine/run.js'
import { endWorker, isWorker, watch, type WorkerLike } from './engine/start-worker.js'
import { errorFromCode } from './errors.js'
import { loadMadeFiles, loadRemote, loadRemoteOpening } from './later.js'
import { RangeReader, type RangeReaderOptions } from './fetch/range-reader.js'
import { asSource, type SourceInput } from './source/as-source.js'
import { BytesSource } from './source/bytes-source.js'
import type { HttpOptions } from './source/http-source.js'
import { orAborted } from './source/abort.js'
import { nameOf, siblingsOf, type SiblingsInput } from './source/siblings.js'
import { checkNumber } from './source/source.js'

/**
 * Options of open(). They include options for requests and their cache, which apply as long as the checkpoint is open.
 */
export interface OpenOptions extends HttpOptions, Pick<RangeReaderOptions, 'cache' | 'maxGap' | 'maxRequestBytes'> {
  /** Stops the opening, which then fails with the signal's reason. */
  readonly signal?: AbortSignal | undefined
  /** Called with the progress of reading header and index. */
  readonly onProgress?: OnProgress | undefined
  /**
   * The location of the WebAssembly core, if it is not beside this package: its address, its bytes or the compiled
   * module.
   */
  readonly core?: CoreInput | undefined
  /**
   * Where the core for all formats is, likewise. It is fetched in place of the other to open a file of another format, to
   * nest names of an Espalier file, to compare, and to say what a file is that is no checkpoint.
   */
  readonly allCore?: CoreInput | undefined
  /** Where the WebAssembly engine is, likewise: it decodes, checks and surveys. It is fetched at the first read. */
  readonly engine?: CoreInput | undefined
  /**
   * The location of the further files of a checkpoint in several files. By default they are beside the URL, or in folders
   * below. If a file is missing, the rest of the checkpoint can be read.
   */
  readonly siblings?: SiblingsInput | undefined
  /**
   * The file's own name, for formats whose further files are named after it: `m-00001-of-00002.gguf`. By default the
   * last part of the URL, or the name of the File.
   */
  readonly name?: string | undefined
  /** The longest index, or header of another format, to accept, in bytes. */
  readonly indexBytes?: number | undefined
  /**
   * Split names at every dot: the key `layers.0.weight` of a flat file becomes the path `layers/0/weight`, in files of
   * any format. A name that is also the beginning of others stays a value.
   */
  readonly nest?: boolean | undefined
  /**
   * Decodes, checks and computes statistics in a worker. Pass true for a new worker, or a worker that runs
   * `espalier/worker`. The checkpoint then owns the worker, even if opening fails. Pass a worker as soon as it is made: a
   * failure before this call is not seen.
   */
  readonly worker?: boolean | WorkerLike | undefined
}

/** The same for openInWorker(), which always uses a worker. */
export interface WorkerOpenOptions extends OpenOptions {
  readonly worker?: true | WorkerLike | undefined
}

/**
 * Opens a checkpoint: reads and checks its tree, and none of its tensors. That takes one request of at most 64 KiB for a
 * typical file, and one more if the index is larger.
 * @param input a URL, a Blob or File, bytes, an open file, or anything with `size()` and `read(offset, length)`. An open
 *   file stays yours: close it after the checkpoint. The `close()` of a source is called when the checkpoint is closed or
 *   cannot be opened
 * @throws EspalierError with a code for the fault of the file; those of the source; invalid_argument
 */
export async function open(input: SourceInput, options?: OpenOptions): Promise<Checkpoint> {
  const { worker, signal, onProgress, cache, maxGap, siblings, nest = false, ...others } = options ?? {}
  let reader: RangeReader | undefined
  let remote: WorkerEngine | undefined
  const watched = isWorker(worker) ? watch(worker) : undefined
  try {
    if (!(worker === undefined || typeof worker === 'boolean' || isWorker(worker))) {
      throw errorFromCode('invalid_argument', "the option 'worker' must be true, false or a Worker")
    }
    const source = asSource(input, { http: others })
    const engine = (): CoreInput => others.engine ?? engineAddress()
    const findSibling = siblingsOf(input, siblings)
    const name = others.name ?? nameOf(input)
    // Bytes in memory are viewed without a copy; caching would only force pieces to be assembled.
    const maxRequestBytes = others.maxRequestBytes ?? (source instanceof BytesSource ? Number.MAX_SAFE_INTEGER : undefined)
    reader = new RangeReader(source, { cache, maxGap, maxRequestBytes })
    const indexBytes = others.indexBytes === undefined ? 0 : checkIndexBytes(others.indexBytes)
    const cores: Record<Opener, () => CoreInput> = {
      core: () => others.core ?? coreAddress(),
      allCore: () => others.allCore ?? allCoreAddress(),
    }
    const load = (which: Opener): Promise<Core> => Core.load(cores[which](), 'espalier_open', signal)
    const files = reader
    const isOwnWorker = watched === undefined
    // The first bytes say which core the file needs. Its name usually does, too, so that both come at once.
    const likely = likelyOpener(name)
    const loading = load(likely)
    loading.catch(() => {})
    const size = await files.size(signal)
    const front = await files.readOne({ offset: 0, length: Math.min(size, FRONT_BYTES) }, { signal, maxRequestBytes: FRONT_BYTES })
    const opener = openerOf(front)
    // A second opening reads the same bytes again, most of them from the reader's cache, and is not reported again.
    let isReported = false
    const begin = { size, indexBytes, nest, name }
    const openWith = async (core: Core, which: Opener): Promise<Tree> => {
      const report = isReported ? undefined : onProgress
      const engineInWorker = remote
      return openTree(new Opening(core, begin), files, {
        signal,
        front,
        inWorker: engineInWorker && (async () => (await loadRemoteOpening()).RemoteOpening.begin(isOwnWorker ? undefined : engineInWorker, cores[which](), begin, signal)),
        onLoaded: (loaded, more) => {
          isReported = true
          report?.({ loaded, total: loaded + more })
        },
        addSibling: async (number, name) => {
          const found = await orAborted((async () => findSibling(name))(), signal)
          if (found !== undefined) files.add(number, asSource(found, { http: { ...others, size: undefined } }), name)
        },
      })
    }
    const core = await (opener === likely ? loading : load(opener))
    if (worker) remote = await (await loadRemote()).WorkerEngine.start(watched, engine)
    let tree = await openWith(core, opener)
    if (opener === 'core' && nest && !tree.isNested && tree.hasDottedKeys) tree = await openWith(await load('allCore'), 'allCore')
    if (tree.madeFiles.length > 0) (await loadMadeFiles()).addMadeFiles(tree, files)
    await remote?.hello(signal)
    return new Checkpoint({ tree, reader, engine: remote ?? new LocalEngine(engine), engineInput: engine, allCore: cores.allCore() })
  } catch (error) {
    if (remote) remote.close()
    else if (isWorker(worker)) endWorker(worker)
    // Not awaited: its outcome must not hide or delay the reason.
    reader?.close().catch(() => {})
    throw error
  }
}

/** The bound as the core takes it: 32 bits, of which 0 is no bound. */
function checkIndexBytes(bytes: number): number {
  return Math.min(Math.max(checkNumber(bytes, 'indexBytes'), 1), 2 ** 32 - 1)
}

/**
 * Opens a checkpoint and decodes, checks and computes statistics in a worker, so that this thread stays free. Fetching
 * and the tree stay here. Otherwise it is the same as open().
 */
export function openInWorker(input: SourceInput, options?: WorkerOpenOptions): Promise<Checkpoint> {
  const { worker = true } = options ?? {}
  if ((worker as unknown) === false) return Promise.reject(errorFromCode('invalid_argument', 'openInWorker() needs a worker'))
  return open(input, { ...options, worker })
}
