// A line as small as a word, of one figure over the steps.
import { sparkHeights } from './spark-line'

const WIDTH = 96
const HEIGHT = 20

interface SparkProps {
  /** Gaps are gaps in the line. */
  readonly values: readonly (number | undefined)[]
  /** The steps that have NaNs or infinities. */
  readonly bad: readonly boolean[]
  /** The position of the chosen step. */
  readonly at: number
  readonly isLog?: boolean
}

/** All lines of one kind have the same least range, so that a flat one is flat. */
export function Spark({ values, bad, at, isLog = false }: SparkProps) {
  const heights = sparkHeights(values, isLog)
  if (heights.every((height) => height === undefined) && !bad.includes(true)) return null
  const x = (i: number): number => (values.length > 1 ? 3 + (i / (values.length - 1)) * (WIDTH - 6) : WIDTH / 2)
  const y = (height: number): number => HEIGHT - 3 - height * (HEIGHT - 6)
  let path = ''
  heights.forEach((height, i) => {
    if (height !== undefined) path += `${heights[i - 1] === undefined ? 'M' : 'L'}${x(i).toFixed(1)} ${y(height).toFixed(1)}`
  })
  const chosen = heights[at]
  return (
    <svg class="spark" viewBox={`0 0 ${WIDTH} ${HEIGHT}`} width={WIDTH} height={HEIGHT} aria-hidden="true">
      <path d={path} />
      {bad.map((is, i) => is && <path key={i} class="run-bad" d={crossAt(x(i), HEIGHT - 4, 2.5)} />)}
      {chosen !== undefined && <circle cx={x(at)} cy={y(chosen)} r={2.5} />}
    </svg>
  )
}

/** A cross: the mark of NaNs and infinities. */
export function crossAt(x: number, y: number, size: number): string {
  return `M${(x - size).toFixed(1)} ${(y - size).toFixed(1)}l${2 * size} ${2 * size}m0 ${-2 * size}l${-2 * size} ${2 * size}`
}
