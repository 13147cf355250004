// The axis of steps that all charts of a run share.
import { linearTicks, logTicks } from '../ui/chart-scale'
import type { StepState } from './survey'

/** The room for labels, in pixels. */
export const LEFT = 62
export const RIGHT = 12

/** Positions of steps. */
export interface StepAxis {
  readonly width: number
  /** Of each run, by the number of the step in its list. */
  readonly xs: readonly (readonly number[])[]
  readonly ticks: readonly { readonly x: number; readonly text: string }[]
  readonly isLog: boolean
  /** The step of the first run nearest to a position. */
  readonly nearest: (x: number) => number
}

/**
 * An axis by the numbers of the steps, or by their positions where two have the same number.
 * @param isLog for a logarithmic axis, where there are numbers
 */
export function stepAxis(runs: readonly (readonly Pick<StepState, 'step'>[])[], width: number, isLog: boolean): StepAxis {
  const numbers = runs.map((steps) => steps.map(({ step }) => step))
  const isByNumber = numbers.every((own) => own.every((number, i) => i === 0 || number > own[i - 1]!))
  const values = isByNumber ? numbers : numbers.map((own) => own.map((_, i) => i))
  const all = values.flat()
  const [low, high] = [Math.min(...all), Math.max(...all)]
  const scaled = isLog && isByNumber && low >= 0 && high > low
  // Runs begin at step 0, which has no logarithm.
  const on = (value: number): number => (scaled ? Math.log(low > 0 ? value : value + 1) : value)
  const place = (value: number): number => (high > low ? LEFT + ((on(value) - on(low)) / (on(high) - on(low))) * (width - LEFT - RIGHT) : (LEFT + width - RIGHT) / 2)
  const wanted = Math.max(2, Math.floor(width / 100))
  const round = (scaled ? [...(low === 0 ? [0] : []), ...logTicks(Math.max(low, 1), high, wanted)] : linearTicks(low, high, wanted)).filter((tick) => (isByNumber ? tick <= high : Number.isInteger(tick)))
  const xs = values.map((own) => own.map(place))
  return {
    width, xs, isLog: scaled,
    ticks: round.map((tick) => ({ x: place(tick), text: isByNumber ? String(tick) : String(numbers[0]?.[tick] ?? tick) })),
    nearest: (at) => (xs[0] ?? []).reduce((best, x, i, own) => (Math.abs(x - at) < Math.abs(own[best]! - at) ? i : best), 0),
  }
}

/** Where in the picture of a chart a pointer is. */
export function pointerAt({ currentTarget, clientX, clientY }: { currentTarget: EventTarget | null; clientX: number; clientY: number }): { readonly x: number; readonly y: number } {
  const { left, top } = (currentTarget as Element).getBoundingClientRect()
  return { x: clientX - left, y: clientY - top }
}
