// Reads parts of the file that make_sparse.py makes, in any host.
import { memoryBytes } from './watch-memory.js'

const GIB = 2 ** 30
const MIB = 2 ** 20

/** @param open the package's open(). @param input the file */
export async function readLarge({ open }, input) {
  const ckpt = await open(input)
  const costs = {}
  let last = { requests: 0, bytesFetched: 0 }
  const cost = (name) => {
    const { requests, bytesFetched } = ckpt.meter
    costs[name] = [requests - last.requests, bytesFetched - last.bytesFetched]
    last = ckpt.meter
  }
  cost('open')
  const { fileLength } = ckpt
  const [before, middle, after] = ['before', 'middle', 'after'].map((key) => ckpt.get(key).tensor)
  const shapes = [before, middle, after].map(({ dtype, shape, byteLength }) => [dtype, [...shape], byteLength])

  // Where 32 bits end.
  const edge = await before.read({ slice: [[4 * GIB - 3, 4 * GIB + 3]] })
  cost('edge')
  // From a chunk of zeros into the one that has others.
  const ramp = await before.read({ slice: [[7 * GIB - 2, 7 * GIB + 6]] })
  cost('ramp')
  const target = new Int8Array(4)
  await before.readInto(target, { slice: [[-4, null]] })
  cost('end')
  // The last row of the file, and one of each 100,000.
  const row = await after.withView((view) => [...view.toFloat32().subarray(0, 6)], { slice: [[-1, null]] })
  cost('row')
  const strided = await after.read({ slice: [[null, null, 100_000], [0, 2]] })
  cost('strided')
  const progress = []
  const { histogram, ...stats } = await middle.stats({ onProgress: ({ loaded }) => progress.push(loaded) })
  cost('stats')
  const counted = histogram.counts.reduce((sum, count) => sum + count, 0)
  await ckpt.close()
  return {
    fileLength, shapes, edge: [...edge.data], ramp: [...ramp.data], end: [...target], row, costs, stats, counted,
    strided: [strided.shape, [...strided.data]], progress: [progress.length, progress.at(-1)],
    memoryMib: memoryBytes() / MIB,
  }
}
