// Converts indices of elements: positions in C order, one number for each axis, and text.

/** The index of the element at a position in C order. */
export function unravel(position: number, shape: readonly number[]): number[] {
  const index: number[] = new Array<number>(shape.length)
  for (let axis = shape.length - 1; axis >= 0; axis--) {
    const length = shape[axis]!
    index[axis] = position % length
    // Not `position / length | 0`, which truncates to 32 bits.
    position = Math.floor(position / length)
  }
  return index
}

/** The position in C order of the element at an index. */
export function ravel(index: readonly number[], shape: readonly number[]): number {
  return shape.reduce((position, length, axis) => position * length + index[axis]!, 0)
}

/** '[3, 0, 17]'. */
export function formatIndex(index: readonly number[]): string {
  return `[${index.join(', ')}]`
}

/**
 * Parses an index that the user typed: '3, 0, -1', with or without brackets. Negative numbers count from the end.
 * @returns an error message if it is invalid
 */
export function parseIndex(text: string, shape: readonly number[]): number[] | string {
  const words = text.replace(/^\s*[[(]|[\])]\s*$/g, '').split(/[\s,]+/).filter((word) => word !== '')
  if (words.length !== shape.length) return `${shape.length} ${shape.length === 1 ? 'number is' : 'numbers are'} needed`
  const index: number[] = []
  for (const [axis, word] of words.entries()) {
    const length = shape[axis]!
    if (!/^-?\d+$/.test(word)) return `“${word}” is not a whole number`
    const at = Number(word)
    if (at >= length || at < -length) return `Axis ${axis} has ${length} ${length === 1 ? 'index' : 'indices'}`
    index.push(at < 0 ? at + length : at)
  }
  return index
}
