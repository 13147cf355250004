// Statistics of a tensor: of all elements, or of a sample.
import type { OnProgress, Tensor, TensorStats } from 'espalier'
import type { Run } from './blocks.js'
import { layoutOf, toSlice } from './layout.js'
import { planSample } from './sample-plan.js'
import { SampleStatistics } from './sample-statistics.js'

/** Statistics, and the number of elements behind them. */
export interface Shown {
  readonly stats: TensorStats
  /** The number of sampled elements; undefined if all were read. */
  readonly sampled: number | undefined
}

/** Runs read at once. */
const AT_ONCE = 4

/** Statistics of all elements. */
export async function exactStatistics(tensor: Tensor, signal: AbortSignal, onProgress: OnProgress): Promise<Shown> {
  return { stats: await tensor.stats({ signal, onProgress }), sampled: undefined }
}

/** Statistics of runs spread over the tensor. */
export async function sampledStatistics(tensor: Tensor, signal: AbortSignal, onProgress: OnProgress): Promise<Shown> {
  const layout = layoutOf(tensor)
  const runs = planSample(layout)
  const total = runs.reduce((sum, { count }) => sum + count, 0)
  const statistics = new SampleStatistics()
  let sampled = 0
  const read = async ({ ranges, count }: Run): Promise<void> => {
    statistics.add(await tensor.read({ slice: toSlice(layout, ranges), signal }))
    sampled += count
    onProgress({ loaded: (sampled * layout.bits) / 8, total: (total * layout.bits) / 8 })
  }
  for (let i = 0; i < runs.length; i += AT_ONCE) await Promise.all(runs.slice(i, i + AT_ONCE).map(read))
  return { stats: statistics.result(), sampled }
}
