// The scale of small lines: what is small in one must not look large.
import { shareOf } from '../ui/chart-scale'

/** A line's range is at least this part of its largest value: less is noise to the eye, and a flat line. */
const LEAST_SPAN = 0.1
/** The same for figures that vary by factors. */
const LEAST_FACTOR = 3

/** Heights from 0 to 1; undefined for what is not finite. @param isLog for figures above 0 that vary by factors */
export function sparkHeights(values: readonly (number | undefined)[], isLog: boolean): readonly (number | undefined)[] {
  const known = values.filter((value) => value !== undefined && Number.isFinite(value)) as number[]
  if (known.length === 0) return values.map(() => undefined)
  let [low, high] = [Math.min(...known), Math.max(...known)]
  const scaled = isLog && low > 0
  if (scaled) {
    const missing = Math.sqrt(Math.max(1, LEAST_FACTOR / (high / low)))
    ;[low, high] = [low / missing, high * missing]
  } else {
    const missing = Math.max(0, LEAST_SPAN * Math.max(Math.abs(low), Math.abs(high)) - (high - low)) / 2
    ;[low, high] = [low - missing, high + missing]
  }
  return values.map((value) => (value === undefined || !Number.isFinite(value) ? undefined : high > low ? shareOf(value, low, high, scaled) : 0.5))
}
