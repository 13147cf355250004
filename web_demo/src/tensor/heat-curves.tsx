// The curves beside a heatmap.
import { useMemo } from 'preact/hooks'
import { shortNumber } from '../ui/chart-number.js'
import { curveOf, pathOf } from './heat-curve.js'
import type { HeatProfile, ProfileKind } from './heat-profile.js'
import { CURVE } from './heat-room.js'
import type { Window } from './plane.js'

/** The curve above the picture. */
export function ColumnCurve({ profile, kind, window, x, width }: { profile: HeatProfile; kind: ProfileKind; window: Window; x: number; width: number }) {
  const curve = useMemo(() => curveOf(profile, kind, window, width), [profile, kind, window.start, window.count, width])
  if (curve.greatest < curve.least) return null
  return (
    <g>
      <line class="chart-grid" x1={x} x2={x + width} y1={CURVE} y2={CURVE} />
      <path class="chart-line" d={pathOf(curve, (place, share) => `${(x + place * width).toFixed(1)} ${(CURVE - 2 - share * (CURVE - 6)).toFixed(1)}`)} />
      {curve.specials.map((place) => <rect key={place} class="heat-special" x={x + place * width - 1.5} y={CURVE - 1} width={3} height={5} />)}
      <text x={x - 7} y={10} text-anchor="end">{shortNumber(curve.greatest, 3)}</text>
      <text x={x - 7} y={CURVE - 3} text-anchor="end">{shortNumber(curve.least, 3)}</text>
    </g>
  )
}

/** The curve at the right of the picture. */
export function RowCurve({ profile, kind, window, x, y, height }: { profile: HeatProfile; kind: ProfileKind; window: Window; x: number; y: number; height: number }) {
  const curve = useMemo(() => curveOf(profile, kind, window, height), [profile, kind, window.start, window.count, height])
  if (curve.greatest < curve.least) return null
  return (
    <g>
      <line class="chart-grid" x1={x} x2={x} y1={y} y2={y + height} />
      <path class="chart-line" d={pathOf(curve, (place, share) => `${(x + 2 + share * (CURVE - 6)).toFixed(1)} ${(y + place * height).toFixed(1)}`)} />
      {curve.specials.map((place) => <rect key={place} class="heat-special" x={x - 4} y={y + place * height - 1.5} width={5} height={3} />)}
      <text x={x + CURVE} y={y + height + 16} text-anchor="end">{shortNumber(curve.greatest, 3)}</text>
    </g>
  )
}
