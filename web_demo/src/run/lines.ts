// The lines of a chart: one figure of several tensors, of one or two runs.
import { widened } from '../ui/chart-scale'

/** A figure over the steps of a run. */
export interface Line {
  readonly name: string
  /** 0 for the run that is shown, 1 for the one beside it, whose lines are dashed. */
  readonly run: number
  /** Which mark and colour: those of the same tensor are equal in both runs. */
  readonly mark: number
  readonly values: readonly (number | undefined)[]
  /** The steps that have NaNs or infinities. */
  readonly bad: readonly boolean[]
}

/** Lines that can be told apart. */
export const MOST_LINES = 8

/** The values as parts of the first one that is finite and not 0; those of lines without one are undefined. */
export function relative({ values, ...line }: Line): Line {
  const first = values.find((value) => value !== undefined && Number.isFinite(value) && value !== 0)
  return { ...line, values: values.map((value) => (value === undefined || first === undefined ? undefined : value / first)) }
}

/** The scale of the values of lines; undefined if none is finite. A logarithm needs numbers above 0. */
export function scaleOf(lines: readonly Line[], isLog: boolean): { readonly low: number; readonly high: number; readonly isLog: boolean } | undefined {
  const known = lines.flatMap(({ values }) => values.filter((value) => value !== undefined && Number.isFinite(value))) as number[]
  if (known.length === 0) return undefined
  const scaled = isLog && known.every((value) => value > 0)
  const [low, high] = widened(Math.min(...known), Math.max(...known), scaled)
  return { low, high, isLog: scaled }
}

/** The change of a part in percent, as short as it may be: '+0.04 %'. */
export function percentText(part: number): string {
  const percent = part * 100
  const size = Math.abs(percent)
  if (size < 1e-6) return '0 %'
  const text = size >= 1e4 ? percent.toExponential(1).replace('e+', 'e') : percent.toLocaleString('en', { maximumSignificantDigits: size >= 100 ? 3 : 2 })
  return `${percent > 0 ? '+' : ''}${text.replace('-', '−')} %`
}

/** The shape around a point that tells a line from others without colours. */
export function markAt(mark: number, x: number, y: number, size: number): string {
  const r = size
  const poly = (...points: readonly (readonly [number, number])[]): string => `M${points.map(([dx, dy]) => `${(x + dx * r).toFixed(1)} ${(y + dy * r).toFixed(1)}`).join('L')}z`
  switch (mark % MOST_LINES) {
    case 1:
      return poly([-0.9, -0.9], [0.9, -0.9], [0.9, 0.9], [-0.9, 0.9])
    case 2:
      return poly([0, -1.2], [1.1, 0.9], [-1.1, 0.9])
    case 3:
      return poly([0, -1.3], [1.3, 0], [0, 1.3], [-1.3, 0])
    case 4:
      return poly([0, 1.2], [1.1, -0.9], [-1.1, -0.9])
    case 5:
      return poly([-0.4, -1.2], [0.4, -1.2], [0.4, 1.2], [-0.4, 1.2])
    case 6:
      return poly([-1.2, -0.4], [1.2, -0.4], [1.2, 0.4], [-1.2, 0.4])
    case 7:
      return poly([-0.4, -1.2], [0.4, -1.2], [0.4, -0.4], [1.2, -0.4], [1.2, 0.4], [0.4, 0.4], [0.4, 1.2], [-0.4, 1.2], [-0.4, 0.4], [-1.2, 0.4], [-1.2, -0.4], [-0.4, -0.4])
    default:
      return `M${(x - r).toFixed(1)} ${y.toFixed(1)}a${r} ${r} 0 1 0 ${2 * r} 0a${r} ${r} 0 1 0 ${-2 * r} 0z`
  }
}
