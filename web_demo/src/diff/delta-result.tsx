// Shows the result of comparing the elements of two tensors.
import { formatExact } from '../ui/format'
import { formatShare } from '../ui/format-share'
import { BUCKETS, LOWEST, type Deltas } from './deltas'

const WIDTH = 180
const HEIGHT = 34

/** The numbers, and a histogram of the magnitudes. */
export function DeltaResult({ deltas }: { deltas: Deltas }) {
  const { elements, differing, notComparable, max, mean } = deltas
  if (differing === 0) return <>all {formatExact(elements)} elements are equal</>
  return (
    <div class="delta">
      {formatExact(differing)} of {formatExact(elements)} elements differ ({formatShare(differing / elements)}),
      max |Δ| {max.toPrecision(4)}, mean |Δ| {mean.toPrecision(4)}
      {notComparable > 0 && `, ${formatExact(notComparable)} not comparable`}
      {max > 0 && <DeltaHistogram deltas={deltas} />}
    </div>
  )
}

function DeltaHistogram({ deltas: { histogram } }: { deltas: Deltas }) {
  const first = histogram.findIndex((count) => count > 0)
  let end = BUCKETS
  while (histogram[end - 1] === 0) end--
  const most = histogram.reduce((a, b) => Math.max(a, b), 0)
  const width = Math.min(WIDTH / (end - first), 24)
  // The outermost buckets include everything beyond.
  const from = first === 0 ? 'below 2^' + (LOWEST + 1) : `2^${LOWEST + first}`
  const to = end === BUCKETS ? `2^${LOWEST + end} and more` : `2^${LOWEST + end}`
  return (
    <figure>
      <svg width={width * (end - first)} height={HEIGHT} role="img" aria-label={`Histogram of |Δ| from ${from} to ${to}`}>
        {Array.from(histogram.subarray(first, end), (count, i) => {
          // Even a small count must be visible.
          const height = count > 0 ? Math.max(1, (count / most) * HEIGHT) : 0
          return <rect x={i * width} y={HEIGHT - height} width={Math.max(width - 1, 1)} height={height} fill="currentColor" />
        })}
      </svg>
      <figcaption>|Δ| from {from} to {to}, by powers of two</figcaption>
    </figure>
  )
}
