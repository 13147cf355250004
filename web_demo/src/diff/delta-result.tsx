// Shows all figures of a comparison of two tensors.
import { shortNumber } from '../ui/chart-number'
import { formatExact } from '../ui/format'
import { formatShare } from '../ui/format-share'
import { BUCKETS, LOWEST, type Deltas } from './deltas'

const WIDTH = 180
const HEIGHT = 34

/** The numbers, and a histogram of the magnitudes. */
export function DeltaResult({ deltas, isSampled, ofAll }: { deltas: Deltas; isSampled: boolean; ofAll: number }) {
  const { elements, differing, notComparable, max, mean, deltaNorm, beforeNorm, afterNorm, cosine } = deltas
  const where = isSampled ? `a sample of ${formatExact(elements)} of ${formatExact(ofAll)} elements` : `${formatExact(elements)} elements`
  if (differing === 0) return <p>{isSampled ? `No change in ${where}.` : `All ${where} are equal.`}</p>
  return (
    <div class="delta">
      <p>
        {formatExact(differing)} of {where} differ ({formatShare(differing / elements)}),
        max |Δ| {max.toPrecision(4)}, mean |Δ| {mean.toPrecision(4)}
        {notComparable > 0 && `, ${formatExact(notComparable)} not comparable`}.
      </p>
      <p class="quiet">‖Δ‖ {shortNumber(deltaNorm)}, ‖W‖ {shortNumber(beforeNorm)} before and {shortNumber(afterNorm)} after, cosine {cosine === undefined ? 'undefined' : cosineText(cosine)}</p>
      {max > 0 && <DeltaHistogram deltas={deltas} />}
    </div>
  )
}

/** A cosine with as many digits as tell it from 1. */
export function cosineText(cosine: number): string {
  const apart = 1 - Math.abs(cosine)
  if (apart > 0 && apart < 1e-6) return `${cosine < 0 ? '-' : ''}1 − ${apart.toExponential(0)}`
  return cosine.toFixed(apart > 0 && apart < 1e-3 ? 6 : 4)
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
