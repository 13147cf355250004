// Statistics as numbers.
import type { Tensor } from 'espalier'
import { useMemo } from 'preact/hooks'
import { shortNumber } from '../ui/chart-number.js'
import { formatExact } from '../ui/format.js'
import { bucketFigures } from './bucket-figures.js'
import { share } from './share-text.js'
import type { Shown } from './statistics.js'

/** The figures that count first. */
export function StatisticsNumbers({ shown: { stats, sampled }, tensor }: { shown: Shown; tensor: Tensor }) {
  const total = sampled ?? tensor.elements
  const number = (value: number | bigint | undefined): string => (value === undefined ? 'none' : typeof value === 'bigint' ? formatExact(value) : shortNumber(value, 6))
  const count = (value: number): string => `${formatExact(value)}${value > 0 && total > 0 ? ` (${share(value / total)})` : ''}`
  return (
    <Numbers
      isSample={sampled !== undefined}
      note={/^c/.test(tensor.dtype) ? 'Of magnitudes.' : undefined}
      rows={[
        ['Min', number(stats.min), String(stats.min)],
        ['Max', number(stats.max), String(stats.max)],
        ['Mean', number(stats.mean), String(stats.mean)],
        ['Std', number(stats.std), String(stats.std)],
        ['Zeros', count(stats.zeros), String(stats.zeros)],
        ['NaN', count(stats.nan), String(stats.nan), stats.nan > 0],
        ['±Inf', count(stats.inf), String(stats.inf), stats.inf > 0],
        ['Finite', count(stats.finite), String(stats.finite)],
      ]}
    />
  )
}

/** Norms, moments and quantiles of statistics with finite elements. */
export function FurtherNumbers({ shown: { stats, sampled }, tensor }: { shown: Shown; tensor: Tensor }) {
  const { quantiles, l1, l2, rms, skewness, kurtosis, isExact } = useMemo(() => bucketFigures(stats, tensor.dtype), [stats])
  const about = (value: number | undefined, exactly = isExact): string => (value === undefined ? 'none' : `${exactly ? '' : '≈ '}${shortNumber(value, exactly ? 6 : 3)}`)
  const isOneSign = Number(stats.min) >= 0 || Number(stats.max) <= 0
  const isSample = sampled !== undefined
  return (
    <>
      <Numbers
        isSample={isSample}
        rows={[
          ['L1 norm', about(l1, isExact || isOneSign), String(l1)],
          ['L2 norm', shortNumber(l2, 6), String(l2)],
          ['RMS', shortNumber(rms, 6), String(rms)],
          ['Skewness', about(skewness), String(skewness)],
          ['Excess kurtosis', about(kurtosis), String(kurtosis)],
        ]}
      />
      <h2>Quantiles{isSample && ' in the sample'}</h2>
      <dl class="tensor-numbers tensor-quantiles">
        {quantiles.map(({ share: at, low, high }) => {
          const [from, to] = [shortNumber(low, 4), shortNumber(high, 4)]
          return <div key={at}><dt>{+(100 * at).toFixed(1)} %</dt><dd>{from === to ? from : `${from} to ${to}`}</dd></div>
        })}
      </dl>
      {!isExact && <p class="tensor-note">Where two values are given, the quantile is between them: elements are counted in buckets that are at most 1/128 as wide as their values. Figures marked ≈ follow from the same buckets.</p>}
    </>
  )
}

type Row = readonly [name: string, value: string, full: string, isBad?: boolean]

function Numbers({ rows, isSample, note }: { rows: readonly Row[]; isSample: boolean; note?: string | undefined }) {
  return (
    <dl class="tensor-numbers">
      {rows.map(([name, value, full, isBad]) => (
        <div key={name} class={isBad ? 'tensor-bad' : undefined}>
          <dt>{name}{isSample && ' in the sample'}</dt>
          <dd title={full}>{value}</dd>
        </div>
      ))}
      {note && <p class="tensor-note">{note}</p>}
    </dl>
  )
}
