// The colours of a heatmap. Lightness carries the size, so that colour blindness hides nothing.

/** Red, green and blue, 0 to 255. */
export type Colour = readonly [red: number, green: number, blue: number]

/** A scale of colours by name. */
export type ColourMap = 'diverging' | 'sequential' | 'greys'

interface Scale {
  readonly title: string
  /** Whether zero belongs in the middle. */
  readonly isDiverging: boolean
  /** From the lowest value to the highest, evenly spaced. */
  readonly stops: readonly Colour[]
}

export const COLOUR_MAPS: { readonly [map in ColourMap]: Scale } = {
  diverging: {
    title: 'blue to red (diverging)',
    isDiverging: true,
    stops: [
      [16, 58, 122], [38, 107, 172], [100, 164, 206], [176, 212, 231], [247, 247, 247],
      [251, 205, 180], [238, 142, 112], [205, 71, 64], [130, 8, 34],
    ],
  },
  sequential: {
    title: 'light to blue (sequential)',
    isDiverging: false,
    stops: [[247, 250, 245], [205, 233, 222], [139, 202, 209], [66, 157, 196], [24, 100, 163], [10, 34, 84]],
  },
  greys: { title: 'greys (sequential)', isDiverging: false, stops: [[250, 250, 250], [20, 20, 20]] },
}

/** No scale has colours like these. */
export const NAN_COLOUR: Colour = [255, 208, 0]
export const PLUS_INF_COLOUR: Colour = [255, 0, 200]
export const MINUS_INF_COLOUR: Colour = [0, 190, 70]

/** Shades of a palette. */
export const SHADES = 256

/** A pixel as browsers store it; typed arrays are little-endian on all platforms with browsers. */
export function pixelOf([red, green, blue]: Colour): number {
  return (red | (green << 8) | (blue << 16) | (255 << 24)) >>> 0
}

/** The pixels of a scale, from its low end to its high end. */
export function palette(map: ColourMap): Uint32Array {
  const { stops } = COLOUR_MAPS[map]
  return Uint32Array.from({ length: SHADES }, (_, i) => {
    const at = (i / (SHADES - 1)) * (stops.length - 1)
    const low = Math.min(Math.floor(at), stops.length - 2)
    const mix = (part: 0 | 1 | 2): number => Math.round(stops[low]![part] + (stops[low + 1]![part] - stops[low]![part]) * (at - low))
    return pixelOf([mix(0), mix(1), mix(2)])
  })
}

/** 'rgb(255 208 0)'. */
export function cssColour(colour: Colour): string {
  return `rgb(${colour.join(' ')})`
}
