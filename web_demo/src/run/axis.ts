// The axis of steps that all charts of a run share.
import { linearTicks } from '../ui/chart-scale'
import type { StepState } from './survey'

/** The width of a chart, and the room for labels, in units of its picture. */
export const WIDTH = 640
export const LEFT = 62
export const RIGHT = 12

/** Positions of steps. */
export interface StepAxis {
  readonly x: (i: number) => number
  readonly ticks: readonly { readonly x: number; readonly text: string }[]
  /** The step nearest to a position. */
  readonly nearest: (x: number) => number
}

/** An axis by the numbers of the steps, or by their positions where two have the same number. */
export function stepAxis(steps: readonly StepState[]): StepAxis {
  const numbers = steps.map(({ step }) => step)
  const isByNumber = numbers.every((number, i) => i === 0 || number > numbers[i - 1]!)
  const values = isByNumber ? numbers : numbers.map((_, i) => i)
  const [low, high] = [values[0] ?? 0, values.at(-1) ?? 0]
  const place = (value: number): number => (high > low ? LEFT + ((value - low) / (high - low)) * (WIDTH - LEFT - RIGHT) : (LEFT + WIDTH - RIGHT) / 2)
  const x = (i: number): number => place(values[i]!)
  const round = linearTicks(low, high, 6).filter((tick) => isByNumber || Number.isInteger(tick))
  return {
    x,
    ticks: round.map((tick) => ({ x: place(tick), text: isByNumber ? String(tick) : String(numbers[tick]) })),
    nearest: (at) => values.reduce((best, _, i) => (Math.abs(x(i) - at) < Math.abs(x(best) - at) ? i : best), 0),
  }
}

/** Where in the picture of a chart a pointer is. */
export function pointerX({ currentTarget, clientX }: { currentTarget: EventTarget | null; clientX: number }): number {
  const box = (currentTarget as Element).getBoundingClientRect()
  return ((clientX - box.left) / box.width) * WIDTH
}
