// Parts of the package that a page which only lists does not load. Each comes at its first use.
import { errorFromCode } from './errors.js'

/** Reading, statistics and checks of one tensor. */
export const loadReading = part(() => import('./api/read-tensor.js'))
/** Reading several tensors together. */
export const loadReadAll = part(() => import('./api/read-all.js'))
/** Checking a whole file. */
export const loadVerification = part(() => import('./api/verify.js'))
/** Comparing two checkpoints. */
export const loadComparison = part(() => import('./api/compare.js'))
/** Surveying all tensors. */
export const loadExamination = part(() => import('./api/examine.js'))
/** Reading through a key map. */
export const loadMapping = part(() => import('./api/map.js'))
/** Reading what a new file takes from open checkpoints. */
export const loadNeeds = part(() => import('./write/needs.js'))
/** Making files that a checkpoint has only in another form. */
export const loadMadeFiles = part(() => import('./api/made-files.js'))
/** Running the decoder in this thread. */
export const loadDecoder = part(() => import('./engine/decoder.js'))
/** Running the decoder in a worker. */
export const loadRemote = part(() => import('./engine/remote.js'))
/** Opening a file with a large index in a worker. */
export const loadRemoteOpening = part(() => import('./engine/remote-opening.js'))

/** A function that loads a part. @throws EspalierError io_error if it cannot be loaded */
function part<T>(load: () => Promise<T>): () => Promise<T> {
  // An import() of what was imported takes Node half a millisecond.
  let loaded: Promise<T> | undefined
  return () =>
    (loaded ??= load().catch((cause: unknown) => {
      // The network may be back next time.
      loaded = undefined
      throw errorFromCode('io_error', `a part of the package cannot be loaded (${cause}); check the network, or call preload() while there is one`, { cause })
    }))
}
