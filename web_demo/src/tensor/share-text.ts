// Parts of a whole as text.

/** A part of a whole, in percent. Only all is 100 %. */
export function share(part: number): string {
  if (part > 0 && part < 0.0001) return '< 0.01 %'
  if (part < 1 && part > 0.9995) return '> 99.9 %'
  return `${(100 * part).toLocaleString('en', { maximumSignificantDigits: 3 })} %`
}
