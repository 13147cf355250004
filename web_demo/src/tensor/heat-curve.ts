// The curves beside a heatmap, as paths.
import type { HeatProfile, ProfileKind } from './heat-profile.js'
import type { Window } from './plane.js'

/** A curve over a window of an axis. */
export interface HeatCurve {
  /** For each point: its place along the axis, 0 to 1, and its value. */
  readonly points: readonly (readonly [place: number, value: number])[]
  readonly least: number
  readonly greatest: number
  /** The places of NaN and infinities. */
  readonly specials: readonly number[]
}

/** The curve with at most about two points for each of `pixels`: the least and the greatest value there. */
export function curveOf(profile: HeatProfile, kind: ProfileKind, { start, count }: Window, pixels: number): HeatCurve {
  const first = Math.floor(start / profile.unit)
  const stop = Math.min(Math.ceil((start + count) / profile.unit), profile.groups)
  const points: [number, number][] = []
  const specials: number[] = []
  let [least, greatest] = [kind === 'mean' ? Infinity : 0, -Infinity]
  const steps = Math.max(1, Math.min(stop - first, Math.floor(pixels)))
  for (let i = 0; i < steps; i++) {
    const from = first + Math.floor((i * (stop - first)) / steps)
    const to = first + Math.floor(((i + 1) * (stop - first)) / steps)
    let [low, high] = [Infinity, -Infinity]
    let isSpecial = false
    for (let group = from; group < to; group++) {
      isSpecial ||= profile.special[group]! > 0
      const value = profile.at(group, kind)
      if (value === undefined || !Number.isFinite(value)) continue
      low = Math.min(low, value)
      high = Math.max(high, value)
    }
    const place = (((from + to) / 2) * profile.unit - start) / count
    if (isSpecial) specials.push(place)
    if (low > high) continue
    if (low < high) points.push([place, low])
    points.push([place, high])
    least = Math.min(least, low)
    greatest = Math.max(greatest, high)
  }
  return { points, least, greatest, specials }
}

/** The path of a curve. @param at the coordinates of a point from its place and its share of the greatest value, 0 to 1 */
export function pathOf({ points, least, greatest }: HeatCurve, at: (place: number, share: number) => string): string {
  const range = greatest - least
  return points.map(([place, value], i) => `${i === 0 ? 'M' : 'L'}${at(place, range > 0 ? (value - least) / range : 0.5)}`).join('')
}
