/** A part of a whole, from 0 to 1, in percent: '12%', '0.3%'. */
export function formatShare(share: number): string {
  const percent = share * 100
  if (percent > 0 && percent < 0.1) return '<0.1%'
  return `${percent < 1 && percent > 0 ? percent.toFixed(1) : Math.round(percent)}%`
}
