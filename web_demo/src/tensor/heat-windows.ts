// Zooms and moves the windows of a heatmap.
import type { Plane, Window } from './plane.js'

/** The shown rows and columns. */
export interface Windows {
  readonly rows: Window
  readonly columns: Window
}

/** The shortest side of a window. */
const LEAST = 4

/** All of a plane. */
export function wholeOf({ rows, columns }: Plane): Windows {
  return { rows: { start: 0, count: rows }, columns: { start: 0, count: columns } }
}

/** A window `factor` times as long, in which `at` stays where it is. */
export function zoomed({ start, count }: Window, length: number, factor: number, at = start + count / 2): Window {
  const wanted = Math.round(count * factor)
  // A small window must change too.
  const next = Math.min(Math.max(factor > 1 ? Math.max(wanted, count + 1) : wanted, Math.min(LEAST, length)), length)
  return within(Math.round(at - ((at - start) / count) * next), next, length)
}

/** A window moved by some indices. */
export function moved({ start, count }: Window, length: number, by: number): Window {
  return within(start + Math.round(by), count, length)
}

/** The window from one position to another, in either order. */
export function spanning(a: number, b: number, length: number): Window {
  const start = Math.min(Math.max(Math.floor(Math.min(a, b)), 0), length - 1)
  const stop = Math.min(Math.max(Math.ceil(Math.max(a, b)), start + 1), length)
  const count = Math.max(stop - start, Math.min(LEAST, length))
  return within(start, count, length)
}

/** The window moved so that an index is in it. */
export function showing({ start, count }: Window, length: number, index: number): Window {
  if (index < start) return within(index, count, length)
  return index >= start + count ? within(index - count + 1, count, length) : { start, count }
}

/** Shorter axes are shown whole. */
const SHORT = 128

/** The windows around a region, so that it and its neighbours are seen. */
export function windowsAround(region: Windows, whole: Windows): Windows {
  const around = ({ start, count }: Window, { count: length }: Window): Window => {
    const wanted = Math.max(count, SHORT / 2)
    return length <= SHORT || count === length ? { start: 0, count: length } : within(start - Math.floor((wanted - count) / 2), wanted, length)
  }
  return { rows: around(region.rows, whole.rows), columns: around(region.columns, whole.columns) }
}

function within(start: number, count: number, length: number): Window {
  return { start: Math.min(Math.max(start, 0), length - count), count }
}
