// A row of the grid.
import { dtypeClass } from '../ui/families'
import { formatShare } from '../ui/format-share'
import type { Column } from './columns'
import { splitForMiddle } from './middle'
import type { RowSource, RowText } from './row-source'

const HASH_TEXT = { none: '', unchecked: 'unchecked', ok: 'ok', bad: 'BAD' } as const
/** Paths in a square of 16. */
const ICONS = {
  tensor: 'M2 2h12v12H2zM2 6h12M2 10h12M6 2v12M10 2v12',
  value: 'M5 3H3v10h2M11 3h2v10h-2M8 6v4',
  ok: 'M3 8.5l3.2 3.2L13 5',
  bad: 'M4 4l8 8M12 4l-8 8',
  unchecked: 'M8 7.9v.2',
} as const

interface GridRowProps {
  readonly rows: RowSource
  readonly columns: readonly Column[]
  readonly row: number
  /** In CSS pixels. */
  readonly top: number
  readonly isActive: boolean
  readonly isSelected: boolean
  onPress(row: number): void
  onOpen(row: number, isOpen: boolean): void
}

/** A row at its position. */
export function GridRow({ rows, columns, row, top, isActive, isSelected, onPress, onOpen }: GridRowProps) {
  const text = rows.text(row)
  const { position, count } = rows.place(row)
  const isOpen = rows.isOpen(row)
  const level = rows.level(row)
  return (
    <div
      role="row"
      class={`grid-row is-${text.kind} ${text.part}`}
      style={{ transform: `translateY(${top}px)` }}
      tabIndex={isActive ? 0 : -1}
      aria-level={level + 1}
      aria-setsize={count}
      aria-posinset={position + 1}
      aria-rowindex={row + 2}
      aria-expanded={isOpen}
      aria-selected={isSelected}
      onClick={() => onPress(row)}
      onDblClick={() => isOpen !== undefined && onOpen(row, !isOpen)}
    >
      {columns.map(({ id }) => (
        id === 'name'
          ? <Name text={text} level={level} isOpen={isOpen} onTwist={() => onOpen(row, !isOpen)} />
          : <span role="gridcell" class={`c-${id}${id === 'hash' ? ` hash-${text.hash}` : ''}`} title={titleOf(id, text)}>{cell(id, text)}</span>
      ))}
    </div>
  )
}

interface NameProps {
  readonly text: RowText
  readonly level: number
  readonly isOpen: boolean | undefined
  onTwist(): void
}

function Name({ text, level, isOpen, onTwist }: NameProps) {
  const [start, end] = splitForMiddle(text.name)
  return (
    <span role="gridcell" class="c-name" title={text.path} style={{ paddingInlineStart: `${Math.min(level, 24) * 0.9}rem` }}>
      {isOpen === undefined
        ? <Icon of={text.kind === 'tensor' ? 'tensor' : 'value'} />
        : <span
            class={`twist ${isOpen ? 'is-open' : 'is-closed'}`}
            aria-hidden="true"
            onClick={(event) => {
              event.stopPropagation()
              onTwist()
            }}
          />}
      <span class="label"><span class="label-start">{start}</span><span class="label-end">{end}</span></span>
      <span class="note">{text.note}</span>
    </span>
  )
}

function Icon({ of }: { readonly of: keyof typeof ICONS }) {
  return <svg class="icon" viewBox="0 0 16 16" aria-hidden="true"><path d={ICONS[of]} /></svg>
}

function titleOf(id: Column['id'], text: RowText): string | undefined {
  if (id === 'params') return text.exactElements
  return id === 'shape' || id === 'dtype' ? text[id] : undefined
}

function cell(id: Column['id'], text: RowText) {
  switch (id) {
    case 'dtype':
      return text.kind === 'tensor' ? <span class={`chip ${dtypeClass(text.dtype)}`}>{text.dtype}</span> : text.dtype
    case 'params':
      return text.elements
    case 'share':
      return text.share !== undefined && <>
        <span class="bar" aria-hidden="true"><span style={{ width: `${text.share * 100}%` }} /></span>
        {formatShare(text.share)}
      </>
    case 'hash':
      return text.hash !== 'none' && <><Icon of={text.hash} /><span class="unseen">{HASH_TEXT[text.hash]}</span></>
    default:
      return text[id]
  }
}
