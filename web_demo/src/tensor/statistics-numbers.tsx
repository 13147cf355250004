// Statistics as numbers.
import type { Tensor } from 'espalier'
import { useMemo } from 'preact/hooks'
import { shortNumber } from '../ui/chart-number.js'
import { formatExact } from '../ui/format.js'
import { bucketFigures, type Interval } from './bucket-figures.js'
import type { Shown } from './statistics.js'

export function StatisticsNumbers({ shown: { stats, sampled }, tensor }: { shown: Shown; tensor: Tensor }) {
  const total = sampled ?? tensor.elements
  const figures = useMemo(() => (stats.finite > 0 ? bucketFigures(stats, tensor.dtype) : undefined), [stats])
  const number = (value: number | bigint | undefined): string => (value === undefined ? 'none' : typeof value === 'bigint' ? formatExact(value) : shortNumber(value, 6))
  const count = (value: number): string => `${formatExact(value)}${value > 0 && total > 0 ? ` (${share(value / total)})` : ''}`
  const rows: [name: string, value: string, full: string, isBad?: boolean][] = [
    ['Min', number(stats.min), String(stats.min)],
    ['Max', number(stats.max), String(stats.max)],
    ['Mean', number(stats.mean), String(stats.mean)],
    ['Std', number(stats.std), String(stats.std)],
    ['Zeros', count(stats.zeros), String(stats.zeros)],
    ['NaN', count(stats.nan), String(stats.nan), stats.nan > 0],
    ['±Inf', count(stats.inf), String(stats.inf), stats.inf > 0],
    ['Finite', count(stats.finite), String(stats.finite)],
  ]
  if (figures) {
    const { l1, l2, rms, skewness, kurtosis, isExact } = figures
    const about = (value: number | undefined, exactly = isExact): string => (value === undefined ? 'none' : `${exactly ? '' : '≈ '}${shortNumber(value, exactly ? 6 : 3)}`)
    const isOneSign = Number(stats.min) >= 0 || Number(stats.max) <= 0
    rows.push(
      ['L1 norm', about(l1, isExact || isOneSign), String(l1)],
      ['L2 norm', shortNumber(l2, 6), String(l2)],
      ['RMS', shortNumber(rms, 6), String(rms)],
      ['Skewness', about(skewness), String(skewness)],
      ['Excess kurtosis', about(kurtosis), String(kurtosis)],
    )
  }
  const of = sampled === undefined ? '' : ' in the sample'
  return (
    <>
      <dl class="tensor-numbers">
        {rows.map(([name, value, full, isBad]) => (
          <div key={name} class={isBad ? 'tensor-bad' : undefined}>
            <dt>{name}{of}</dt>
            <dd title={full}>{value}</dd>
          </div>
        ))}
        {(tensor.dtype === 'c64' || tensor.dtype === 'c128') && <p class="tensor-note">Of magnitudes.</p>}
      </dl>
      {figures && (
        <table class="tensor-quantiles">
          <caption>Quantiles{of}{figures.isExact ? '' : ': each lies between two values at most 1/128 apart'}</caption>
          <thead><tr>{figures.quantiles.map(({ share: at }) => <th key={at} scope="col">{100 * at} %</th>)}</tr></thead>
          <tbody><tr>{figures.quantiles.map((each) => <td key={each.share}>{intervalOf(each)}</td>)}</tr></tbody>
        </table>
      )}
    </>
  )
}

function intervalOf({ low, high }: Interval) {
  const [from, to] = [shortNumber(low, 4), shortNumber(high, 4)]
  return from === to ? from : <>{from}<br />{to}</>
}

/** A part of a whole, in percent. */
export function share(part: number): string {
  return `${part > 0 && part < 0.0001 ? '< 0.01' : (100 * part).toLocaleString('en', { maximumSignificantDigits: 3 })} %`
}
