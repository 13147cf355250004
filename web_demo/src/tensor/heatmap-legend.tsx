// The colours of a heatmap and the values that they stand for.
import { useLayoutEffect, useRef } from 'preact/hooks'
import { shortNumber } from '../ui/chart-number.js'
import { cssColour, MINUS_INF_COLOUR, NAN_COLOUR, PLUS_INF_COLOUR, SHADES, type Colour } from './colours.js'
import type { Domain } from './domain.js'

export function HeatmapLegend({ domain, palette, least, greatest, hasGaps }: {
  domain: Domain | undefined
  palette: Uint32Array
  /** The least and the greatest shown value. */
  least: number
  greatest: number
  /** Whether a part of the picture was not read. */
  hasGaps: boolean
}) {
  const canvas = useRef<HTMLCanvasElement>(null)
  useLayoutEffect(() => {
    const bytes = new Uint8ClampedArray(palette.slice().buffer)
    canvas.current?.getContext('2d')?.putImageData(new ImageData(bytes, SHADES, 1), 0, 0)
  }, [palette, domain === undefined])
  return (
    <figcaption class="heat-legend">
      {domain ? (
        <span class="heat-scale">
          <span>{least < domain.low && '≤ '}{shortNumber(domain.low)}</span>
          <canvas ref={canvas} width={SHADES} height={1} role="img" aria-label="Colours from the lowest value to the highest" />
          <span>{greatest > domain.high && '≥ '}{shortNumber(domain.high)}{domain.isLog && ', logarithmic'}</span>
        </span>
      ) : <span>No finite value</span>}
      <Swatch colour={NAN_COLOUR} name="NaN" />
      <Swatch colour={PLUS_INF_COLOUR} name="Inf" />
      <Swatch colour={MINUS_INF_COLOUR} name="-Inf" />
      {hasGaps && <span><i class="heat-swatch heat-gap" /> not read</span>}
    </figcaption>
  )
}

function Swatch({ colour, name }: { colour: Colour; name: string }) {
  return <span><i class="heat-swatch" style={{ background: cssColour(colour) }} /> {name}</span>
}
