// Short numbers for charts and summaries.

/** About `digits` digits: '0.0123', '1.5e-9', '1,234'. */
export function shortNumber(value: number | bigint, digits = 4): string {
  const number = Number(value)
  if (!Number.isFinite(number)) return Number.isNaN(number) ? 'NaN' : number > 0 ? 'Inf' : '-Inf'
  const size = Math.abs(number)
  if (size !== 0 && (size < 1e-4 || size >= 1e7)) return number.toExponential(digits - 1).replace(/\.?0+e/, 'e').replace('e+', 'e')
  return number.toLocaleString('en', { maximumSignificantDigits: digits })
}

/** The labels of an axis: as many digits as its ticks need to differ. */
export function tickLabels(ticks: readonly number[]): string[] {
  for (let digits = 2; ; digits++) {
    const labels = ticks.map((tick) => shortNumber(tick, digits))
    if (new Set(labels).size === labels.length || digits === 12) return labels
  }
}
