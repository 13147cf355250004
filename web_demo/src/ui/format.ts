// Formats numbers for people.
const UNITS = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'] as const

/** Bytes with a binary unit and three digits: '1.53 GiB'. */
export function formatBytes(bytes: number): string {
  let unit = 0
  let size = bytes
  // A value that rounds to 1000 in three digits is 1 of the next unit.
  while (size >= (unit === 0 ? 1000 : 999.5) && unit < UNITS.length - 1) {
    size /= 1024
    unit++
  }
  return `${unit === 0 ? size : size.toPrecision(3)} ${UNITS[unit]}`
}

const counts = new Intl.NumberFormat('en', { maximumSignificantDigits: 3, notation: 'compact' })
const exact = new Intl.NumberFormat('en')

/** A count in short: '7.04B'. */
export function formatCount(count: number): string {
  return counts.format(count)
}

/** A count in full: '7,041,966,080'. */
export function formatExact(count: number | bigint): string {
  return exact.format(count)
}

/** A shape as it is written in Python: '[4096, 128]'. */
export function formatShape(shape: readonly number[]): string {
  return `[${shape.join(', ')}]`
}

/** '1 tensor', '2 tensors'. */
export function counted(count: number, noun: string): string {
  return `${formatExact(count)} ${noun}${count === 1 ? '' : 's'}`
}
