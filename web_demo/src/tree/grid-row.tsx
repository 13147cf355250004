// A row of the grid.
import { deltaColour } from '../diff/delta-colour'
import { dtypeClass } from '../ui/families'
import { formatRelative, formatShare } from '../ui/format-share'
import type { Column } from './columns'
import { cutMiddle } from './middle'
import type { RowSource, RowText } from './row-source'

/** Pixels of a level, before the name, and of the square of a part, as in tree.css. */
const [INDENT, LEAD, PART] = [12, 21, 13]
const HASH_TEXT = { none: '', unchecked: 'unchecked', ok: 'ok', bad: 'BAD' } as const
/** Paths in a square of 16. */
const ICONS = {
  tensor: 'M2 2h12v12H2zM2 6h12M2 10h12M6 2v12M10 2v12',
  container: 'M2 4.5h4l1.5 2H14V13H2z',
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
  /** The relative change to another file, 0 for none; undefined if nothing is compared. */
  readonly change?: number | undefined
  /** The width of the name's cell and of a character, in CSS pixels. */
  readonly width: number
  readonly character: number
  onPress(row: number): void
  onOpen(row: number, isOpen: boolean): void
}

/** A row at its position. */
export function GridRow({ rows, columns, row, top, isActive, isSelected, change, width, character, onPress, onOpen }: GridRowProps) {
  const text = rows.text(row)
  const { position, count } = rows.place(row)
  const isOpen = rows.isOpen(row)
  const level = rows.level(row)
  const indent = Math.min(level, 24) * INDENT
  return (
    <div
      role="row"
      class={`grid-row is-${text.kind} ${text.part}${text.isRun ? ' is-run' : ''}`}
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
          ? <Name text={text} change={change} indent={indent} isOpen={isOpen} most={Math.floor((width - indent - (text.part ? LEAD + PART : LEAD)) / character)} onTwist={() => onOpen(row, !isOpen)} />
          : <span role="gridcell" class={`c-${id}${id === 'hash' ? ` hash-${text.hash}` : ''}`} title={titleOf(id, text)}>{cell(id, text)}</span>
      ))}
    </div>
  )
}

interface NameProps {
  readonly text: RowText
  readonly change: number | undefined
  readonly indent: number
  /** The characters that there is space for. */
  readonly most: number
  readonly isOpen: boolean | undefined
  onTwist(): void
}

function Name({ text, change, indent, most, isOpen, onTwist }: NameProps) {
  const [start, middle, end] = cutMiddle(text.name, most)
  return (
    <span role="gridcell" class="c-name" title={`${text.path}${text.isRun ? `: ${text.note}` : ''}`} style={{ paddingInlineStart: `${indent}px` }}>
      {isOpen === undefined
        ? <Icon of={text.kind} />
        : <span
            class={`twist ${isOpen ? 'is-open' : 'is-closed'}`}
            aria-hidden="true"
            onClick={(event) => {
              event.stopPropagation()
              onTwist()
            }}
          />}
      {change !== undefined && <ChangeMark change={change} />}
      {/* What is left out stays there to be copied and read aloud. */}
      <span class="label">{start}{middle && <span class="label-cut">{middle}</span>}{end}</span>
      {!middle && <span class="note">{text.note}</span>}
    </span>
  )
}

function ChangeMark({ change }: { readonly change: number }) {
  if (change === 0) return <span class="change-mark is-none" />
  const said = `changed by ${formatRelative(change)}`
  return <span class="change-mark" role="img" aria-label={said} title={said} style={{ background: deltaColour(change) }} />
}

function Icon({ of }: { readonly of: keyof typeof ICONS }) {
  return <svg class="icon" viewBox="0 0 16 16" aria-hidden="true"><path d={ICONS[of]} /></svg>
}

function titleOf(id: Column['id'], text: RowText): string | undefined {
  if (id === 'params') return text.exactElements
  if (id === 'share') return text.share === undefined ? undefined : formatShare(text.share)
  if (id === 'hash') return HASH_TEXT[text.hash] || undefined
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
        <span class="percent">{formatShare(text.share)}</span>
      </>
    case 'hash':
      return text.hash !== 'none' && <><Icon of={text.hash} /><span class="unseen">{HASH_TEXT[text.hash]}</span></>
    default:
      return text[id]
  }
}
