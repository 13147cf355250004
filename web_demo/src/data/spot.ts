// A place in a tensor, as a link has it: 17/33 is an element, 17/: a row, :/33 a column.

/** An index; undefined stands for all of an axis. */
export type Spot = readonly (number | undefined)[]

/** Formats a place; '' for a whole tensor. */
export function formatSpot(spot: Spot): string {
  return spot.some((index) => index !== undefined) ? spot.map((index) => index ?? ':').join('/') : ''
}

/** Parses a place; undefined if it is none in a tensor of this shape. */
export function parseSpot(text: string, shape: readonly number[]): Spot | undefined {
  const words = text.split('/')
  if (words.length !== shape.length || !words.every((word) => /^(:|\d{1,15})$/.test(word))) return undefined
  const spot = words.map((word) => (word === ':' ? undefined : Number(word)))
  return spot.every((index, axis) => index === undefined || index < shape[axis]!) ? spot : undefined
}

/** The index of the element, if it is one. */
export function elementAt(spot: Spot | undefined): number[] | undefined {
  return spot?.every((index) => index !== undefined) ? (spot as number[]) : undefined
}
