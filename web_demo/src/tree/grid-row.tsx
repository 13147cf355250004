// A row of the grid.
import { deltaColour, formatRelative } from '../diff/delta-colour'
import { formatShare } from '../ui/format-share'
import type { RowSource } from './row-source'

/** The columns, from the left. Narrow pages leave out some, see tree.css. */
export const COLUMNS = [
  { name: 'Name', className: 'c-name' },
  { name: 'Type', className: 'c-dtype' },
  { name: 'Shape', className: 'c-shape' },
  { name: 'Params', className: 'c-number c-elements' },
  { name: 'Bytes', className: 'c-number c-bytes' },
  { name: 'Stored', className: 'c-number c-stored' },
  { name: 'Share', className: 'c-share' },
  { name: 'Hash', className: 'c-hash' },
] as const

const HASH_TEXT = { none: '', unchecked: 'unchecked', ok: 'ok', bad: 'BAD' } as const

interface GridRowProps {
  readonly rows: RowSource
  readonly row: number
  /** In CSS pixels. */
  readonly top: number
  readonly isActive: boolean
  readonly isSelected: boolean
  /** The relative change to another file, 0 for none; undefined if nothing is compared. */
  readonly change?: number | undefined
  onGo(row: number): void
  onOpen(row: number, isOpen: boolean): void
}

/** A row at its position. */
export function GridRow({ rows, row, top, isActive, isSelected, change, onGo, onOpen }: GridRowProps) {
  const text = rows.text(row)
  const { position, count } = rows.place(row)
  const isOpen = rows.isOpen(row)
  const level = rows.level(row)
  const [name, dtype, shape, elements, bytes, stored, share, hash] = COLUMNS.map(({ className }) => className)
  return (
    <div
      role="row"
      class={`grid-row is-${text.kind}`}
      style={{ transform: `translateY(${top}px)` }}
      tabIndex={isActive ? 0 : -1}
      aria-level={level + 1}
      aria-setsize={count}
      aria-posinset={position + 1}
      aria-rowindex={row + 2}
      aria-expanded={isOpen}
      aria-selected={isSelected}
      onClick={() => onGo(row)}
      onDblClick={() => isOpen !== undefined && onOpen(row, !isOpen)}
    >
      <span role="gridcell" class={name} title={text.path} style={{ paddingInlineStart: `${0.25 + Math.min(level, 24) * 0.9}rem` }}>
        <span
          class={isOpen === undefined ? 'twist' : isOpen ? 'twist is-open' : 'twist is-closed'}
          aria-hidden="true"
          onClick={(event) => {
            if (isOpen === undefined) return
            event.stopPropagation()
            onOpen(row, !isOpen)
          }}
        />
        {change === 0 && <span class="change-mark is-none" />}
        {change !== undefined && change > 0 && <span class="change-mark" role="img" aria-label={`changed by ${formatRelative(change)}`} title={`changed by ${formatRelative(change)}`} style={{ background: deltaColour(change) }} />}
        <span class="label">{text.name}</span> <span class="note">{text.note}</span>
      </span>
      <span role="gridcell" class={dtype}>{text.dtype}</span>
      <span role="gridcell" class={shape} title={text.shape}>{text.shape}</span>
      <span role="gridcell" class={elements} title={text.exactElements}>{text.elements}</span>
      <span role="gridcell" class={bytes}>{text.bytes}</span>
      <span role="gridcell" class={stored}>{text.stored}</span>
      <span role="gridcell" class={share}>
        {text.share === undefined ? '' : <>
          <span class="bar" aria-hidden="true"><span style={{ width: `${text.share * 100}%` }} /></span>
          {formatShare(text.share)}
        </>}
      </span>
      <span role="gridcell" class={`${hash} hash-${text.hash}`}>{HASH_TEXT[text.hash]}</span>
    </div>
  )
}
