// Scrolling through more rows than a browser can make an element high.

/** The highest element that all browsers lay out correctly: Firefox fails before 9 million. */
export const HIGHEST = 8_000_000

/** The mapping between the scroll bar's position and the position in the rows, in CSS pixels. */
export interface Scale {
  /** The height of all rows, and of the element that represents them. */
  readonly content: number
  readonly spacer: number
  /** The visible height. */
  readonly view: number
}

/** The scale for a number of rows. */
export function scaleFor(rows: number, rowHeight: number, view: number): Scale {
  const content = rows * rowHeight
  return { content, spacer: Math.min(content, HIGHEST), view }
}

/** Whether the element is shorter than the rows. */
export function isScaled({ content, spacer }: Scale): boolean {
  return content > spacer
}

/** Converts a scroll bar position to a position in the rows. */
export function toContent({ content, spacer, view }: Scale, scrollTop: number): number {
  const range = spacer - view
  return range <= 0 ? 0 : clamp((scrollTop * (content - view)) / range, 0, content - view)
}

/** Converts a position in the rows to a scroll bar position. */
export function toScroll({ content, spacer, view }: Scale, offset: number): number {
  const range = content - view
  return range <= 0 ? 0 : (clamp(offset, 0, range) * (spacer - view)) / range
}

/** The position nearest to `offset` where a row is fully visible. */
export function offsetShowing(scale: Scale, offset: number, row: number, rowHeight: number): number {
  const top = row * rowHeight
  return clamp(offset, Math.max(top + rowHeight - scale.view, 0), top)
}

function clamp(number: number, least: number, most: number): number {
  return Math.max(least, Math.min(number, most))
}
