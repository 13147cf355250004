// The bars of a histogram: where they are drawn, and what they are called.
import { shortNumber } from '../ui/chart-number.js'
import { shareOf } from '../ui/chart-scale.js'
import type { BinCounts, BinPlan } from './histogram-bins.js'

/** One bar. */
export interface HistogramBar {
  readonly kind: 'bin' | 'below' | 'above' | 'zero'
  /** The values in words: '0.5 to 0.75', 'below -2'. */
  readonly label: string
  /** What stands under it; '' if the axis says it. */
  readonly name: string
  readonly lower: number
  readonly upper: number
  /** Elements of the tensor, and of the other one. */
  readonly count: number
  readonly other: number
  readonly x: number
  readonly width: number
}

/** The width of bars beside the axis, and the space to it. */
const SIDE = 22
const SPACE = 14

/** The bars from left to right. */
export function barsOf(plan: BinPlan, counts: BinCounts, other: BinCounts | undefined, { left, right, isInteger, isBool }: {
  left: number
  right: number
  isInteger: boolean
  isBool: boolean
}): HistogramBar[] {
  const { edges, scale, areValues } = plan
  const bars: HistogramBar[] = []
  const [low, high] = [edges[0]!, edges[edges.length - 1]!]
  const hasZeros = counts.zeros > 0 || (other?.zeros ?? 0) > 0
  const hasBelow = counts.below > 0 || (other?.below ?? 0) > 0
  const hasAbove = counts.above > 0 || (other?.above ?? 0) > 0
  let at = left
  const side = (kind: HistogramBar['kind'], label: string, name: string, lower: number, upper: number, count: number, others = 0): void => {
    bars.push({ kind, label, name, lower, upper, count, other: others, x: at, width: SIDE })
    at += SIDE + SPACE
  }
  if (hasZeros) side('zero', 'zero', '0', 0, 0, counts.zeros, other?.zeros)
  if (hasBelow) side('below', `below ${shortNumber(low, 5)}`, '<', -Infinity, low, counts.below, other?.below)
  const end = right - (hasAbove ? SIDE + SPACE : 0)
  const place = (i: number): number => at + shareOf(edges[i]!, low, high, scale === 'magnitude') * (end - at)
  counts.bins.forEach((count, i) => {
    const [lower, upper] = [edges[i]!, edges[i + 1]!]
    const label = isBool ? (i + Math.round(low + 0.5) > 0 ? 'true' : 'false')
      : areValues ? String(Math.round(lower + 0.5))
        : isInteger && scale === 'linear' ? integers(lower, upper)
          : `${shortNumber(lower, 5)} to ${shortNumber(upper, 5)}`
    bars.push({ kind: 'bin', label, name: isBool ? label : '', lower, upper, count, other: other?.bins[i] ?? 0, x: place(i), width: place(i + 1) - place(i) })
  })
  if (hasAbove) {
    at = right - SIDE
    side('above', `above ${shortNumber(high, 5)}`, '>', high, Infinity, counts.above, other?.above)
  }
  return bars
}

/** The integers of a bar. It includes its edge nearer to zero. */
function integers(lower: number, upper: number): string {
  const [first, last] = lower >= 0 ? [lower, upper - 1] : [lower + 1, upper]
  // The bar of zero is above it.
  const end = lower < 0 && upper === 0 ? -1 : last
  return first === end ? String(first) : `${first.toLocaleString('en')} to ${end.toLocaleString('en')}`
}
