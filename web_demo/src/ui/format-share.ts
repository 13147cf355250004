/** A part of a whole, from 0 to 1, in percent: '12%', '0.3%'. */
export function formatShare(share: number): string {
  const percent = share * 100
  if (percent > 0 && percent < 0.1) return '<0.1%'
  return `${percent < 1 && percent > 0 ? percent.toFixed(1) : Math.round(percent)}%`
}

/** A relative change, of a diff or of a run: '1.2e-5', '0.3%', '140%', '∞'. */
export function formatRelative(relative: number): string {
  if (relative < 0) return `-${formatRelative(-relative)}`
  if (relative === Infinity) return '∞'
  if (relative === 0) return '0'
  const percent = relative * 100
  if (percent < 0.01) return relative.toExponential(1)
  return `${percent >= 1000 ? percent.toExponential(1) : Number(percent.toPrecision(3))}%`
}
