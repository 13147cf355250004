// A line as small as a word, of one figure over the steps.
import { shareOf } from '../ui/chart-scale'

const WIDTH = 96
const HEIGHT = 20

/** @param at the position of the chosen step; gaps in the values are gaps in the line */
export function Spark({ values, at }: { readonly values: readonly (number | undefined)[]; readonly at: number }) {
  const known = values.filter((value) => value !== undefined)
  if (known.length === 0) return null
  const [low, high] = [Math.min(...known), Math.max(...known)]
  const x = (i: number): number => (values.length > 1 ? 2 + (i / (values.length - 1)) * (WIDTH - 4) : WIDTH / 2)
  const y = (value: number): number => (high > low ? HEIGHT - 3 - shareOf(value, low, high, false) * (HEIGHT - 6) : HEIGHT / 2)
  let path = ''
  values.forEach((value, i) => {
    if (value !== undefined) path += `${values[i - 1] === undefined ? 'M' : 'L'}${x(i).toFixed(1)} ${y(value).toFixed(1)}`
  })
  const chosen = values[at]
  return (
    <svg class="spark" viewBox={`0 0 ${WIDTH} ${HEIGHT}`} width={WIDTH} height={HEIGHT} aria-hidden="true">
      <path d={path} />
      {chosen !== undefined && <circle cx={x(at)} cy={y(chosen)} r={2.5} />}
    </svg>
  )
}
