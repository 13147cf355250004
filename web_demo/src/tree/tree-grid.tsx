// The grid of rows. Only visible rows are in the page.
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks'
import { findByName, moveFor } from './grid-keys'
import type { Column } from './columns'
import { GridRow } from './grid-row'
import { visible } from '../ui/visible'
import type { RowSource } from './row-source'
import type { Order } from './order'
import { isScaled, offsetShowing, scaleFor, toContent, toScroll } from './scroll-scale'

/** The inputs and callbacks of the grid. */
export interface TreeGridProps {
  readonly rows: RowSource
  readonly columns: readonly Column[]
  readonly order: Order
  /** The characters of the longest type. */
  readonly longestType: number
  readonly label: string
  /** The row with the keyboard focus. */
  readonly active: number
  /** The node shown in the pane. */
  readonly selected: number | undefined
  /** Increments when the rows must be drawn again. */
  readonly version: number
  /** How far an item moved, if that is known. */
  readonly changeOf?: ((item: number) => number | undefined) | undefined
  onGo(row: number): void
  /** Called when a row is pressed with a pointer. */
  onPress(row: number): void
  onOrder(by: Order['by']): void
  onOpen(row: number, isOpen: boolean): void
  onOpenSiblings(row: number): void
  onEnter(row: number): void
}

/** As in tree.css. */
const ROW_HEIGHT = 28
/** Extra rows beyond the edges, so that a quick scroll shows no gap. */
const BEYOND = 8
/** Measures a character of a name. */
const RULER = '0'.repeat(40)
/** After this many milliseconds a letter starts a new name. */
const PAUSE = 700

/** An accessible treegrid. */
export function TreeGrid(props: TreeGridProps) {
  const { rows, columns, order, active, selected, label } = props
  const element = useRef<HTMLDivElement>(null)
  const [view, setView] = useState(400)
  const [[width, character], setWidths] = useState([200, 8])
  const [offset, setOffset] = useState(0)
  // The scroll position set by the page; any other position comes from the user.
  const placed = useRef(-1)
  const typed = useRef({ text: '', at: 0 })
  const takesFocus = useRef(false)
  const scale = scaleFor(rows.length, ROW_HEIGHT, view)
  const at = Math.min(offset, Math.max(scale.content - view, 0))

  useLayoutEffect(() => {
    const grid = element.current!
    const [name, ruler] = ['.grid-head .c-name', '.ruler'].map((selector) => grid.querySelector<HTMLElement>(selector)!)
    const measure = (): void => {
      setView(Math.max(grid.clientHeight - ROW_HEIGHT, ROW_HEIGHT))
      setWidths([name!.offsetWidth, ruler!.offsetWidth / RULER.length || 8])
    }
    measure()
    const observer = new ResizeObserver(measure)
    for (const measured of [grid, name!]) observer.observe(measured)
    return () => observer.disconnect()
  }, [])

  const scrollTo = (to: number): void => {
    setOffset(to)
    const grid = element.current!
    grid.scrollTop = toScroll(scale, to)
    placed.current = grid.scrollTop
  }

  useEffect(() => {
    // A scaled scroll bar would make the wheel jump over rows.
    const grid = element.current!
    const onWheel = (event: WheelEvent): void => {
      if (!isScaled(scale) || event.ctrlKey || event.deltaY === 0) return
      event.preventDefault()
      const unit = event.deltaMode === 1 ? ROW_HEIGHT : event.deltaMode === 2 ? view : 1
      scrollTo(Math.max(0, Math.min(at + event.deltaY * unit, scale.content - view)))
    }
    grid.addEventListener('wheel', onWheel, { passive: false })
    return () => grid.removeEventListener('wheel', onWheel)
  })

  // The focused row is scrolled into view when it changes, not when the user scrolls away from it.
  useLayoutEffect(() => {
    const to = offsetShowing(scale, at, active, ROW_HEIGHT)
    if (to !== at) scrollTo(to)
  }, [active, rows, view > ROW_HEIGHT])

  useLayoutEffect(() => {
    if (!takesFocus.current) return
    takesFocus.current = false
    element.current!.querySelector<HTMLElement>('[tabindex="0"]')?.focus({ preventScroll: true })
  })

  const go = (row: number): void => {
    takesFocus.current = true
    props.onGo(row)
    scrollTo(offsetShowing(scale, at, row, ROW_HEIGHT))
  }

  const onKeyDown = (event: KeyboardEvent): void => {
    if (event.ctrlKey || event.metaKey || event.altKey || rows.length === 0) return
    if ((event.target as Element).closest('.grid-head')) return
    const move = moveFor(event.key, active, rows, Math.max(1, Math.floor(view / ROW_HEIGHT) - 1))
    if (!move) return
    event.preventDefault()
    takesFocus.current = true
    if ('go' in move) go(move.go)
    else if ('open' in move) props.onOpen(move.open, true)
    else if ('close' in move) props.onOpen(move.close, false)
    else if ('openSiblings' in move) props.onOpenSiblings(move.openSiblings)
    else if ('enter' in move) {
      takesFocus.current = false
      props.onEnter(move.enter)
    } else {
      const now = event.timeStamp
      const text = now - typed.current.at < PAUSE ? typed.current.text + move.find : move.find
      typed.current = { text, at: now }
      go(findByName(text, active, rows, (row) => rows.name(row)))
    }
  }

  const first = Math.max(0, Math.floor(at / ROW_HEIGHT) - BEYOND)
  const end = Math.min(rows.length, Math.ceil((at + view) / ROW_HEIGHT) + BEYOND)
  const slots = Math.ceil(view / ROW_HEIGHT) + 2 * BEYOND + 1
  const shown: number[] = []
  // The focused row stays in the page, wherever the user scrolls.
  if (active < first) shown.push(active)
  for (let row = first; row < end; row++) shown.push(row)
  if (active >= end && active < rows.length) shown.push(active)
  const scrolled = toScroll(scale, at)
  const selectedItem = selected === undefined ? undefined : rows.itemOf(selected)
  const press = (row: number): void => {
    go(row)
    props.onPress(row)
  }

  return (
    <div
      ref={element}
      class="grid"
      role="treegrid"
      aria-label={visible(label)}
      aria-rowcount={rows.length + 1}
      aria-colcount={columns.length}
      style={{ '--type-width': `${props.longestType}ch` }}
      onKeyDown={onKeyDown}
      onScroll={({ currentTarget }) => {
        if (Math.abs(currentTarget.scrollTop - placed.current) < 1) return
        placed.current = -1
        setOffset(toContent(scale, currentTarget.scrollTop))
      }}
    >
      <div role="rowgroup" class="grid-head">
        <span class="ruler label" aria-hidden="true">{RULER}</span>
        <div role="row" aria-rowindex={1} class="grid-row">
          {columns.map((column) => <Header column={column} order={order} onOrder={props.onOrder} />)}
        </div>
      </div>
      <div role="rowgroup" class="grid-body" style={{ height: `${scale.spacer}px` }}>
        {shown.map((row) => (
          <GridRow
            // Reusing elements for other rows takes a third of the time. But the focused element must keep its row.
            key={row === active ? `row ${row}` : row % slots}
            rows={rows}
            columns={columns}
            row={row}
            top={isScaled(scale) ? scrolled + row * ROW_HEIGHT - at : row * ROW_HEIGHT}
            isActive={row === active}
            isSelected={rows.item(row) === selectedItem}
            change={props.changeOf && (props.changeOf(rows.node(row)) ?? 0)}
            width={width!}
            character={character!}
            onPress={press}
            onOpen={props.onOpen}
          />
        ))}
      </div>
    </div>
  )
}

interface HeaderProps {
  readonly column: Column
  readonly order: Order
  onOrder(by: Order['by']): void
}

function Header({ column: { id, name, order: by }, order, onOrder }: HeaderProps) {
  const sort = by === undefined ? undefined : by !== order.by ? 'none' : order.isDown ? 'descending' : 'ascending'
  return (
    <span role="columnheader" class={`c-${id}`} aria-sort={sort}>
      {by === undefined ? name : (
        <button type="button" class="sort" title={by === order.by ? 'Sorted; press to change' : `Sort by ${name.toLowerCase()}`} onClick={() => onOrder(by)}>
          {name}<svg class="icon" viewBox="0 0 16 16" aria-hidden="true"><path d={sort === 'none' ? 'M5 6l3-3 3 3M5 10l3 3 3-3' : sort === 'ascending' ? 'M4 10l4-4 4 4' : 'M4 6l4 4 4-4'} /></svg>
        </button>
      )}
    </span>
  )
}
