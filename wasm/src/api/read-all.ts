// Reads several tensors together.
import { TensorData, viewAs } from '../data/tensor-data.js'
import { readLayers, type LayeredRange } from '../engine/layers.js'
import type { Plan } from '../engine/plan.js'
import { takingTurns, type RunOptions } from '../engine/run.js'
import { errorFromCode } from '../errors.js'
import type { Opened } from './opened.js'
import { allocate, planRead } from './read-tensor.js'
import { Reading } from './reading.js'
import type { Tensor } from './tensor.js'

/** A tensor, and its elements. */
export interface TensorWithData {
  readonly tensor: Tensor
  readonly data: TensorData
}

interface Pending {
  readonly tensors: readonly Tensor[]
  readonly plan: Plan
  // Allocated at the first chunk: all tensors at once may not fit in memory.
  reading: Reading | undefined
  missing: number
}

/** See Checkpoint.read(). */
export async function* readAll(
  opened: Opened,
  tensors: Iterable<Tensor>,
  { signal, onProgress }: RunOptions,
): AsyncGenerator<TensorWithData, void, undefined> {
  signal?.throwIfAborted()
  const turn = takingTurns(signal)
  const byId = new Map<number, Tensor[]>()
  for (const tensor of tensors) {
    const pause = turn()
    if (pause) await pause
    // Its number would refer to another tensor here.
    if (!tensor.isOf(opened)) throw errorFromCode('invalid_argument', 'the tensor belongs to another checkpoint', { path: tensor.path })
    const tied = byId.get(tensor.id)
    if (tied) tied.push(tensor)
    else if (!tensor.isPlaceholder) byId.set(tensor.id, [tensor])
  }
  const ranges: LayeredRange[] = []
  const chunks: { readonly of: Pending; readonly i: number }[] = []
  let total = 0
  let loaded = 0
  const pending: Pending[] = []
  for (const tied of byId.values()) {
    const pause = turn()
    if (pause) await pause
    const plan = planRead(opened, tied[0]!, {})
    const of: Pending = { tensors: tied, plan, reading: undefined, missing: plan.chunks.length }
    pending.push(of)
    plan.chunks.forEach((range, i) => {
      ranges.push(range)
      chunks.push({ of, i })
    })
    total += plan.stored
  }
  for (const of of pending) {
    if (of.missing === 0) yield* results(of, new Uint8Array(0))
  }
  const started = new Set<Reading>()
  try {
    for await (const { index, bytes } of readLayers(opened.reader, ranges, { signal })) {
      signal?.throwIfAborted()
      const { of, i } = chunks[index]!
      if (!of.reading) started.add((of.reading = new Reading(opened, of.plan, allocate(of.tensors[0]!, of.plan.bytes))))
      if (of.reading.isDecoded) await opened.engine.ready(signal)
      await of.reading.take(i, bytes)
      await turn()
      loaded += bytes.length
      onProgress?.({ loaded, total })
      if (--of.missing > 0) continue
      const { reading } = of
      reading.close()
      started.delete(reading)
      of.reading = undefined
      yield* results(of, reading.out)
    }
  } finally {
    for (const reading of started) reading.close()
  }
}

function* results({ tensors, plan }: Pending, out: Uint8Array): Generator<TensorWithData> {
  const { dtype } = tensors[0]!
  const data = new TensorData(dtype, plan.shape, viewAs(dtype, out))
  for (const tensor of tensors) yield { tensor, data }
}
