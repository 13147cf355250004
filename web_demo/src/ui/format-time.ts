/** A duration for people: '40 s', '3 min', '2 h 5 min'. */
export function formatDuration(seconds: number): string {
  if (!Number.isFinite(seconds)) return '?'
  if (seconds < 90) return `${Math.ceil(seconds)} s`
  const minutes = Math.round(seconds / 60)
  return minutes < 90 ? `${minutes} min` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`
}
