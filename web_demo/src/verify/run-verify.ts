// Verifies a part of a file, or all of it.
import type { EspalierError, Tensor, VerifyReport } from 'espalier'
import type { OpenFile } from '../data/open-file'
import { nextTurn } from '../data/slices'

/** The result. */
export interface Verified {
  readonly ok: boolean
  readonly verdict: VerifyReport['verdict']
  /** The number of checked chunks and bytes. */
  readonly chunks: number
  readonly bytes: number
  /** Without hashes: the number of compared checksums. */
  readonly checksums: number
  /** The bytes of tensors that were not checked: without a checksum, or in missing files. */
  readonly unchecked: number
  readonly errorCount: number
  /** The first errors. */
  readonly errors: readonly EspalierError[]
}

/** The progress in bytes. */
export interface VerifyProgress {
  readonly loaded: number
  readonly total: number
  readonly damaged: number
}

/** Tensors checked at once. */
const AT_ONCE = 4
/** Limit of stored errors. */
const MOST_ERRORS = 1000

/**
 * Checks the tensors of an item, or for the root every byte of the file, and stores the result for the tree.
 * @throws the signal's reason, or EspalierErrors of the source
 */
export async function verifyItem(file: OpenFile, item: number, signal: AbortSignal, onProgress: (progress: VerifyProgress) => void): Promise<Verified> {
  const { checkpoint, outline, hashes } = file
  const root = outline.tops[0]!
  if (item === root) {
    const verified = await checkpoint.verify({ signal, onProgress })
    const tensors = new Set<number>()
    // What is missing says nothing about the bytes of tensors: they stay unchecked.
    const damage = verified.errors.slice(verified.missing.length).filter(({ code }) => code !== 'elements_missing')
    for (const { path } of damage) {
      const tensor = path === undefined ? undefined : checkpoint.get(path)?.tensor
      if (tensor) tensors.add(tensor.id)
    }
    // Damage without a path belongs to the file itself, or to a tensor at the root.
    const bad = damage.some(({ path }) => path === undefined) ? [root] : []
    // Not all damage is listed, and the rest may be anywhere. A checksum is of all tensors in its range, and names one.
    const isAllListed = checkpoint.hasHashes ? verified.errorCount === verified.errors.length : verified.ok
    hashes.note(item, [...bad, ...(await nodesOf(file, tensors, signal))], isAllListed && verified.unchecked === 0)
    return verified
  }
  const damaged = new Set<number>()
  const verified = await verifyTensors(await tensorsOf(file, item, signal), damaged, signal, onProgress)
  hashes.note(item, await nodesOf(file, damaged, signal), true)
  return verified
}

/** All nodes of some tensors: tied ones have several. */
async function nodesOf({ checkpoint }: OpenFile, tensors: ReadonlySet<number>, signal: AbortSignal): Promise<number[]> {
  const nodes: number[] = []
  if (tensors.size === 0) return nodes
  let step = 0
  for (const { root } of [checkpoint, { root: checkpoint.metadata }]) {
    for (const tensor of root.tensors()) {
      if (tensors.has(tensor.id)) nodes.push(tensor.node.id)
      if (++step % 4096 === 0) {
        await nextTurn()
        signal.throwIfAborted()
      }
    }
  }
  return nodes
}

/** The tensors of an item, tied ones once. */
async function tensorsOf({ checkpoint }: OpenFile, item: number, signal: AbortSignal): Promise<Tensor[]> {
  const byId = new Map<number, Tensor>()
  let step = 0
  for (const tensor of checkpoint.node(item)!.tensors()) {
    if (!tensor.isPlaceholder) byId.set(tensor.id, tensor)
    if (++step % 4096 === 0) {
      await nextTurn()
      signal.throwIfAborted()
    }
  }
  return [...byId.values()]
}

/** @param bad receives the numbers of damaged tensors */
async function verifyTensors(tensors: readonly Tensor[], bad: Set<number>, signal: AbortSignal, onProgress: (progress: VerifyProgress) => void): Promise<Verified> {
  const total = tensors.reduce((sum, { stored }) => sum + stored, 0)
  const errors: EspalierError[] = []
  let loaded = 0
  let chunks = 0
  let bytes = 0
  let damaged = 0
  let next = 0
  // The first failure ends the verification.
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
      if (!report.ok) bad.add(tensor.id)
      if (errors.length < MOST_ERRORS) errors.push(...report.errors)
    }
  }
  try {
    await Promise.all(Array.from({ length: AT_ONCE }, work))
  } finally {
    stop.abort()
  }
  errors.sort((a, b) => Number(a.offset ?? 0) - Number(b.offset ?? 0))
  return { ok: damaged === 0, verdict: damaged === 0 ? 'ok' : 'damaged', chunks, bytes, checksums: 0, unchecked: 0, errorCount: damaged, errors }
}
