// The colour of a relative change, on a logarithmic scale.

/** Changes up to the first have the faintest colour, those from the second on the strongest. */
const LOWEST = 1e-5
const HIGHEST = 1

/** A CSS colour, in light and dark themes. */
export function deltaColour(relative: number): string {
  const share = Math.log(Math.max(relative, LOWEST) / LOWEST) / Math.log(HIGHEST / LOWEST)
  return `color-mix(in oklab, var(--delta-strong) ${Math.round(Math.min(share, 1) * 100)}%, var(--delta-faint))`
}
