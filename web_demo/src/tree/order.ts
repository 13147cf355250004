// The order of siblings and of matches.

/** What rows are sorted by. `stored` is the order of the file. */
export interface Order {
  readonly by: 'stored' | 'name' | 'params' | 'bytes'
  readonly isDown: boolean
}

/** The order of the file. */
export const STORED: Order = { by: 'stored', isDown: false }

/** The order that a header changes to: large sizes first, names from the beginning, at last the order of the file. */
export function nextOrder(order: Order, by: Order['by']): Order {
  const first = by !== 'name'
  if (order.by !== by) return { by, isDown: first }
  return order.isDown === first ? { by, isDown: !first } : STORED
}

/** An order as a link has it: 'bytes', '-bytes' from the largest on; '' for the order of the file. */
export function formatOrder({ by, isDown }: Order): string {
  return by === 'stored' ? '' : `${isDown ? '-' : ''}${by}`
}

/** Parses it; other text is the order of the file. */
export function parseOrder(text: string): Order {
  const [, minus, by] = /^(-?)(name|params|bytes)$/.exec(text) ?? []
  return by === undefined ? STORED : { by: by as Order['by'], isDown: minus === '-' }
}
