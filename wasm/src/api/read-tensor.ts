// Reads one tensor: what the async methods of Tensor do. Loaded at the first such call.
import { DTYPES, dtypeBits } from '../core/names.js'
import { TensorData, viewAs } from '../data/tensor-data.js'
import type { ReadJob, StatisticsJob } from '../engine/engine.js'
import { Plan, withVerdict, type VerifyReport } from '../engine/plan.js'
import type { RangeSource } from '../engine/range-source.js'
import { forEachPart, forEachRange, type RunOptions } from '../engine/run.js'
import { Histogram, type TensorStats } from '../engine/statistics.js'
import { errorFromCode, EspalierError } from '../errors.js'
import type { Opened } from './opened.js'
import { Reading } from './reading.js'
import { parseSlice } from './slice.js'
import type { ReadOptions, Tensor } from './tensor.js'

/**
 * Plans a read. Calls `accept` once or twice with the length of the result, before any work that depends on it.
 * @throws EspalierError wrong_kind for a placeholder, invalid_slice; exceptions of `accept`
 */
export function planRead(opened: Opened, tensor: Tensor, options: ReadOptions, accept: (bytes: number) => void = () => {}): Plan {
  if (tensor.isPlaceholder) throw wrongKind(tensor, 'a placeholder has no elements')
  const slices = parseSlice(options.slice ?? [], tensor.shape, () => tensor.path)
  // For a whole tensor the length is known now; check it before the core needs memory for each chunk.
  if (slices.length === 0) accept(tensor.byteLength)
  return new Plan(opened.tree, tensor.id, DTYPES.indexOf(tensor.dtype), slices, accept)
}

/** Memory for a result of `length` bytes. @throws EspalierError out_of_memory */
export function allocate({ path }: Tensor, length: number): Uint8Array {
  try {
    return new Uint8Array(length)
  } catch {
    throw errorFromCode('out_of_memory', `cannot allocate an array of ${length} bytes; read slices of the tensor`, { path })
  }
}

/** See Tensor.read(). */
export async function read(opened: Opened, tensor: Tensor, options: ReadOptions): Promise<TensorData> {
  let out: Uint8Array | undefined
  const plan = planRead(opened, tensor, options, (length) => {
    out ??= allocate(tensor, length)
  })
  const data = viewAs(tensor.dtype, out!)
  await fill(opened, out!, plan, options)
  return new TensorData(tensor.dtype, plan.shape, data)
}

/** See Tensor.readInto(). */
export async function readInto(opened: Opened, tensor: Tensor, target: ArrayBufferView, options: ReadOptions): Promise<void> {
  const { path } = tensor
  if (!ArrayBuffer.isView(target)) throw errorFromCode('invalid_argument', 'the target must be a typed array', { path })
  const plan = planRead(opened, tensor, options, (length) => {
    if (target.byteLength === length) return
    throw errorFromCode('invalid_argument', `the target has ${target.byteLength} bytes and the elements take ${length}`, { path })
  })
  const bytes = new Uint8Array(target.buffer, target.byteOffset, target.byteLength)
  if (!plan.isExclusive) bytes.fill(0)
  await fill(opened, bytes, plan, options)
}

/** See Tensor.withView(). */
export async function withView<T>(opened: Opened, tensor: Tensor, use: (view: TensorData) => T, options: ReadOptions): Promise<T> {
  const plan = planRead(opened, tensor, options, (length) => {
    // More than most hosts can hold: fail before fetching it.
    if (length > 2 ** 32) allocate(tensor, length)
  })
  const first = plan.chunks[0]
  if (!plan.isDirect || !first) return use(await read(opened, tensor, options))
  const { signal } = options
  const stored = await opened.reader.readOne({ ...first, length: plan.bytes }, { signal })
  const held = {
    async *read(): AsyncIterable<{ index: number; bytes: Uint8Array }> {
      for (const [index, chunk] of plan.chunks.entries()) {
        const begin = chunk.offset - first.offset
        yield { index, bytes: stored.subarray(begin, begin + chunk.length) }
      }
    },
  }
  if (opened.tree.info.hasHashes) await check(opened, plan, held, options)
  if (stored.length !== plan.bytes) throw errorFromCode('io_error', 'the bytes of the source were resized or transferred', { path: tensor.path })
  return use(new TensorData(tensor.dtype, plan.shape, viewAs(tensor.dtype, stored)))
}

/** See Tensor.stats(). */
export async function stats(opened: Opened, tensor: Tensor, options: ReadOptions): Promise<TensorStats> {
  const { engine, reader } = opened
  if (tensor.dtype === 'opaque') throw wrongKind(tensor, 'the library cannot decode opaque blocks')
  const plan = planRead(opened, tensor, options)
  // Padding bits, or bits of another chunk's elements, would be counted.
  const bits = plan.shape.reduce((product, axis) => product * axis, dtypeBits(tensor.dtype))
  if (options.slice?.length && !(plan.isExclusive && bits % 8 === 0)) {
    throw errorFromCode('invalid_slice', 'the elements of this slice do not fill whole bytes in every chunk; read() the slice and compute statistics of the result', { path: tensor.path })
  }
  let job: StatisticsJob | undefined
  try {
    const ready = engine.ready(options.signal)
    // An element may end in the next chunk, which may lie in another file.
    const inOrder = plan.order.map((i) => plan.chunks[i]!)
    await forEachPart(reader, inOrder, { ...options, ready }, (i, stored) => (job ??= engine.statistics(plan)).add(plan.order[i]!, stored))
    // Without chunks, no work has waited for it yet.
    await ready
    job ??= engine.statistics(plan)
    const { lower, upper, counts, ...numbers } = await job.result()
    return { ...numbers, histogram: new Histogram(lower, upper, counts) }
  } finally {
    job?.close()
  }
}

/** See Tensor.verify(). */
export async function verify(opened: Opened, tensor: Tensor, options: RunOptions): Promise<VerifyReport> {
  const { hasHashes } = opened.tree.info
  const plan = planRead(opened, tensor, {})
  const byChunk: EspalierError[] = []
  if (hasHashes) {
    await check(opened, plan, opened.reader, options, (error, i) => {
      if (!(error instanceof EspalierError) || error.code !== 'chunk_corrupt') throw error
      byChunk[i] = error
    })
  }
  const errors = Object.values(byChunk)
  return withVerdict({
    hasHashes,
    checksums: 0,
    unchecked: hasHashes ? 0 : plan.stored,
    chunks: hasHashes ? plan.chunks.length : 0,
    bytes: hasHashes ? plan.stored : 0,
    errorCount: errors.length,
    errors,
  })
}

function wrongKind({ path }: Tensor, message: string): EspalierError {
  return errorFromCode('wrong_kind', message, { path })
}

/** Fetches the plan's chunks and fills `out`, which must be zero unless the plan is exclusive. */
export async function fill(opened: Opened, out: Uint8Array, plan: Plan, options: RunOptions): Promise<void> {
  const reading = new Reading(opened, plan, out)
  try {
    const ready = reading.isDecoded && plan.count > 0 ? opened.engine.ready(options.signal) : undefined
    await forEachRange(opened.reader, plan.chunks, { ...options, ready }, (i, stored) => reading.take(i, stored))
  } finally {
    reading.close()
  }
}

/** Checks the chunks of a plan. Calls `onError` with each error; it may throw. */
async function check(
  { engine }: Opened,
  plan: Plan,
  reader: RangeSource,
  options: RunOptions,
  onError: (error: unknown, i: number) => void = (error) => {
    throw error
  },
): Promise<void> {
  let job: ReadJob | undefined
  try {
    const ready = engine.ready(options.signal)
    await forEachRange(reader, plan.chunks, { ...options, ready }, (i, stored) => {
      try {
        return (job ??= engine.read(plan)).check(i, stored)?.catch((error: unknown) => onError(error, i))
      } catch (error) {
        return onError(error, i)
      }
    })
  } finally {
    job?.close()
  }
}
