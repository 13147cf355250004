// The colours of a heatmap: blue below zero, red above; distinguishable with colour blindness.

/** Red, green and blue, 0 to 255. */
export type Colour = readonly [red: number, green: number, blue: number]

/** From the middle outwards; nearly even steps of lightness. */
const NEGATIVE: readonly Colour[] = [[247, 247, 247], [209, 229, 240], [146, 197, 222], [67, 147, 195], [25, 88, 150]]
const POSITIVE: readonly Colour[] = [[247, 247, 247], [253, 219, 199], [244, 165, 130], [214, 96, 77], [166, 18, 38]]

export const NAN_COLOUR: Colour = [255, 208, 0]
export const PLUS_INF_COLOUR: Colour = [0, 0, 0]
export const MINUS_INF_COLOUR: Colour = [0, 128, 96]

/** The colour of a value; `range` and -`range` have the strongest colours. */
export function colourOf(value: number, range: number): Colour {
  if (Number.isNaN(value)) return NAN_COLOUR
  if (value === Infinity) return PLUS_INF_COLOUR
  if (value === -Infinity) return MINUS_INF_COLOUR
  const stops = value < 0 ? NEGATIVE : POSITIVE
  const share = range > 0 ? Math.min(Math.abs(value) / range, 1) : 0
  const at = share * (stops.length - 1)
  const low = Math.min(Math.floor(at), stops.length - 2)
  const part = at - low
  const [a, b] = [stops[low]!, stops[low + 1]!]
  const mix = (i: 0 | 1 | 2): number => Math.round(a[i] + (b[i] - a[i]) * part)
  return [mix(0), mix(1), mix(2)]
}

/** The pixels of a picture, four bytes each. */
export function paint(numbers: ArrayLike<number>, range: number): Uint8ClampedArray<ArrayBuffer> {
  const pixels = new Uint8ClampedArray(numbers.length * 4)
  for (let i = 0; i < numbers.length; i++) {
    pixels.set(colourOf(numbers[i]!, range), 4 * i)
    pixels[4 * i + 3] = 255
  }
  return pixels
}
