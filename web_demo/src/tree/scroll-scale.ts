// Scrolling through more rows than a browser can make an element high.

/** The highest element that all browsers lay out right: Firefox gives up before 9 million. */
export const HIGHEST = 8_000_000

/** How the position of a scroll bar and that in the rows belong together; all in CSS pixels. */
export interface Scale {
  /** How high the rows are together, and the element that stands for them. */
  readonly content: number
  readonly spacer: number
  /** How much of them is to be seen. */
  readonly view: number
}

/** The scale for so many rows. */
export function scaleFor(rows: number, rowHeight: number, view: number): Scale {
  const content = rows * rowHeight
  return { content, spacer: Math.min(content, HIGHEST), view }
}

/** Whether the scroll bar is shorter than what it stands for. */
export function isScaled({ content, spacer }: Scale): boolean {
  return content > spacer
}

/** The position in the rows that a position of the scroll bar stands for. */
export function toContent({ content, spacer, view }: Scale, scrollTop: number): number {
  const range = spacer - view
  return range <= 0 ? 0 : clamp((scrollTop * (content - view)) / range, 0, content - view)
}

/** The position of the scroll bar that stands for one in the rows. */
export function toScroll({ content, spacer, view }: Scale, offset: number): number {
  const range = content - view
  return range <= 0 ? 0 : (clamp(offset, 0, range) * (spacer - view)) / range
}

/** The position at which a row is to be seen whole that is nearest to `offset`. */
export function offsetShowing(scale: Scale, offset: number, row: number, rowHeight: number): number {
  const top = row * rowHeight
  return clamp(offset, Math.max(top + rowHeight - scale.view, 0), top)
}

function clamp(number: number, least: number, most: number): number {
  return Math.max(least, Math.min(number, most))
}
