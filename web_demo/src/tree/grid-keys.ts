// Keyboard navigation in the tree.
import type { RowSource } from './row-source'

/** The action of a key. */
export type Move =
  | { readonly go: number }
  | { readonly open: number }
  | { readonly close: number }
  | { readonly openSiblings: number }
  | { readonly enter: number }
  | { readonly find: string }

/** The action of a key at a row; undefined for unused keys. */
export function moveFor(key: string, row: number, rows: RowSource, page: number): Move | undefined {
  const last = rows.length - 1
  const isOpen = rows.isOpen(row)
  switch (key) {
    case 'ArrowDown':
      return { go: Math.min(row + 1, last) }
    case 'ArrowUp':
      return { go: Math.max(row - 1, 0) }
    case 'PageDown':
      return { go: Math.min(row + page, last) }
    case 'PageUp':
      return { go: Math.max(row - page, 0) }
    case 'Home':
      return { go: 0 }
    case 'End':
      return { go: last }
    case 'ArrowRight':
      return isOpen === false ? { open: row } : isOpen ? { go: Math.min(row + 1, last) } : { go: row }
    case 'ArrowLeft':
      return isOpen ? { close: row } : { go: parentOf(row, rows) }
    case '*':
      return { openSiblings: row }
    case 'Enter':
      return { enter: row }
    default:
      return key.length === 1 && key !== ' ' ? { find: key } : undefined
  }
}

/** Rows that type-ahead searches. More would make key presses slow. */
const FAR = 20_000

/** The next row whose name begins with a text, from `row` on and wrapping around; `row` itself if there is none. */
export function findByName(text: string, row: number, rows: RowSource, nameOf: (row: number) => string): number {
  const wanted = text.toLowerCase()
  const { length } = rows
  // The first letter moves to the next row; more letters may stay on the row.
  const begin = text.length === 1 ? 1 : 0
  for (let i = begin; i < Math.min(length, FAR); i++) {
    const at = (row + i) % length
    if (nameOf(at).toLowerCase().startsWith(wanted)) return at
  }
  return row
}

function parentOf(row: number, rows: RowSource): number {
  const level = rows.level(row)
  for (let i = row - 1; i >= 0; i--) if (rows.level(i) < level) return i
  return row
}
