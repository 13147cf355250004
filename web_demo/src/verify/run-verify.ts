// Verifies a part of a file, or all of it.
import type { EspalierError, Tensor } from 'espalier'
import type { OpenFile } from '../data/open-file'
import { nextTurn } from '../data/slices'

/** What came of it. */
export interface Verified {
  readonly ok: boolean
  /** How many chunks and bytes were checked. */
  readonly chunks: number
  readonly bytes: number
  readonly errorCount: number
  /** The first of them. */
  readonly errors: readonly EspalierError[]
}

/** How far it is, in bytes. */
export interface VerifyProgress {
  readonly loaded: number
  readonly total: number
  readonly damaged: number
}

/** Tensors that are checked at the same time. */
const AT_ONCE = 4
/** Errors that are kept. */
const MOST_ERRORS = 1000

/**
 * Checks the tensors of an item, or for the root every byte of the file, and notes the result for the tree.
 * @throws the signal's reason, or EspalierErrors of the source
 */
export async function verifyItem(file: OpenFile, item: number, signal: AbortSignal, onProgress: (progress: VerifyProgress) => void): Promise<Verified> {
  const { checkpoint, outline, hashes } = file
  const isAll = item === outline.tops[0]
  const verified: Verified = isAll
    ? await checkpoint.verify({ signal, onProgress })
    : await verifyTensors(await tensorsOf(file, item, signal), signal, onProgress)
  // The metadata is part of the index, which opening has checked.
  const bad = verified.errors.map(({ path }) => (path ? checkpoint.get(path)?.id : undefined)).filter((id) => id !== undefined)
  hashes.note(item, bad)
  return verified
}

/** The tensors of an item, tied ones once. */
async function tensorsOf(file: OpenFile, item: number, signal: AbortSignal): Promise<Tensor[]> {
  const { outline } = file
  const byId = new Map<number, Tensor>()
  const take = (tensor: Tensor): void => {
    if (!tensor.isPlaceholder) byId.set(tensor.id, tensor)
  }
  const stack = [item]
  for (let at = stack.pop(), step = 1; at !== undefined; at = stack.pop(), step++) {
    if (step % 512 === 0) {
      await nextTurn()
      signal.throwIfAborted()
    }
    const node = outline.node(at)
    if (node) for (const tensor of node.tensors()) take(tensor)
    else for (let i = outline.count(at) - 1; i >= 0; i--) stack.push(outline.child(at, i))
  }
  return [...byId.values()]
}

async function verifyTensors(tensors: readonly Tensor[], signal: AbortSignal, onProgress: (progress: VerifyProgress) => void): Promise<Verified> {
  const total = tensors.reduce((sum, { stored }) => sum + stored, 0)
  const errors: EspalierError[] = []
  let loaded = 0
  let chunks = 0
  let bytes = 0
  let damaged = 0
  let next = 0
  // The first failure ends all.
  const stop = new AbortController()
  const either = AbortSignal.any([signal, stop.signal])
  const work = async (): Promise<void> => {
    for (let tensor = tensors[next++]; tensor; tensor = tensors[next++]) {
      let before = 0
      const report = await tensor.verify({
        signal: either,
        onProgress: (progress) => {
          loaded += progress.loaded - before
          before = progress.loaded
          onProgress({ loaded, total, damaged })
        },
      })
      chunks += report.chunks
      bytes += report.bytes
      damaged += report.errorCount
      if (errors.length < MOST_ERRORS) errors.push(...report.errors)
    }
  }
  try {
    await Promise.all(Array.from({ length: AT_ONCE }, work))
  } finally {
    stop.abort()
  }
  errors.sort((a, b) => Number(a.offset ?? 0) - Number(b.offset ?? 0))
  return { ok: damaged === 0, chunks, bytes, errorCount: damaged, errors }
}
