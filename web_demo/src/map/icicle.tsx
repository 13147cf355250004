// A map of the sizes in a checkpoint.
import type { Checkpoint, Node } from 'espalier'
import { useEffect, useLayoutEffect, useReducer, useRef, useState } from 'preact/hooks'
import { formatBytes } from '../ui/format.js'
import type { Branches, Measure } from './branches.js'
import { checkpointNumber } from './checkpoint-number.js'
import { cellName, draw, ROW } from './icicle-draw.js'
import { layOut, MAX_DEPTH, neighbour, type Cell } from './icicle-layout.js'
import './icicle.css'
import { keyText } from './key-text.js'
import { Slices } from './time-slices.js'

/** Children listed below the map at first, and added each time. */
const LISTED = 12
const MORE = 50

interface Layout {
  readonly top: Branches | undefined
  readonly cells: readonly Cell[]
  readonly isAll: boolean
  readonly error?: string
}

interface IcicleProps {
  readonly checkpoint: Checkpoint
  readonly selected: Node | undefined
  /** Called with the chosen node. */
  readonly onSelect: (node: Node) => void
}

/** The map, linked with the selection elsewhere. */
export function Icicle(props: IcicleProps) {
  return <IcicleMap key={checkpointNumber(props.checkpoint)} {...props} />
}

function IcicleMap({ checkpoint, selected, onSelect }: IcicleProps) {
  const [measure, setMeasure] = useState<Measure>('stored')
  const [layout, setLayout] = useState<Layout>({ top: undefined, cells: [], isAll: false })
  const [active, setActive] = useState<Cell>()
  const [, redraw] = useReducer((n: number, _: void) => n + 1, 0)
  const [listLength, setListLength] = useState(LISTED)
  const canvas = useRef<HTMLCanvasElement>(null)
  const frame = useRef<HTMLDivElement>(null)
  const [width, setWidth] = useState(0)
  const focus = useFocus(checkpoint, selected)
  const above = ancestors(focus)

  useLayoutEffect(() => {
    const observer = new ResizeObserver(([entry]) => entry && setWidth(Math.floor(entry.contentRect.width)))
    observer.observe(frame.current!)
    const scheme = matchMedia('(prefers-color-scheme: dark)')
    scheme.addEventListener('change', redraw as () => void)
    return () => {
      observer.disconnect()
      scheme.removeEventListener('change', redraw as () => void)
    }
  }, [])
  useEffect(() => {
    if (width < 10) return undefined
    const controller = new AbortController()
    setActive(undefined)
    setListLength(LISTED)
    layOut(focus, measure, width, new Slices(controller.signal), (top, cells, isAll) => {
      if (!controller.signal.aborted) setLayout({ top, cells, isAll })
    }).catch((error: unknown) => {
      if (!controller.signal.aborted) setLayout({ top: undefined, cells: [], isAll: true, error: error instanceof Error ? error.message : String(error) })
    })
    return () => controller.abort()
  }, [checkpoint, focus.id, measure, width])

  const isCurrent = layout.cells[0]?.node?.id === focus.id
  const cells = isCurrent ? [...above.map((node, i) => ancestorCell(node, i - above.length, width)), ...layout.cells] : []
  const depth = cells.reduce((most, cell) => Math.max(most, cell.depth), 0)
  const height = (above.length + (isCurrent ? depth : Math.min(MAX_DEPTH, 3)) + 1) * ROW
  useLayoutEffect(() => {
    if (canvas.current) draw(canvas.current, cells, above.length, width, height, { selected: selected?.id, active })
  })

  const cellAt = (event: PointerEvent | MouseEvent): Cell | undefined => {
    const box = canvas.current!.getBoundingClientRect()
    const [x, row] = [event.clientX - box.left, Math.floor((event.clientY - box.top) / ROW) - above.length]
    return cells.find((cell) => cell.depth === row && cell.x <= x && x < cell.x + cell.width)
  }
  const choose = (cell: Cell | undefined): void => {
    // A cell too small to draw selects its container.
    const node = cell?.node ?? cell?.parent?.node
    if (node) onSelect(node)
  }
  const onKeyDown = (event: KeyboardEvent): void => {
    const current = active ?? cells.find((cell) => cell.node?.id === selected?.id) ?? layout.cells[0]
    if (!current || event.ctrlKey || event.metaKey || event.altKey) return
    const direction = ({ ArrowLeft: 'left', ArrowRight: 'right', ArrowUp: 'up', ArrowDown: 'down' } as const)[event.key]
    if (direction) setActive(neighbour(cells, current, direction) ?? current)
    else if (event.key === 'Enter' || event.key === ' ') choose(current)
    else return
    event.preventDefault()
  }
  const total = layout.cells[0]?.size ?? 0
  const listed = layout.top?.kept.slice(0, listLength) ?? []
  const listedSize = listed.reduce((sum, { size }) => sum + size, 0)
  const unlisted = focus.size - listed.length
  return (
    <section class="icicle" aria-label="Where the bytes are">
      <div class="icicle-head">
        <nav aria-label="Shown part">
          <ol>
            {[...above, focus].map((node) => (
              <li key={node.id}>
                <button type="button" aria-current={node.id === focus.id ? 'location' : undefined} onClick={() => onSelect(node)}>{keyText(node)}</button>
              </li>
            ))}
          </ol>
        </nav>
        <label>
          Size <select value={measure} onChange={(event) => setMeasure(event.currentTarget.value as Measure)}>
            <option value="stored">in the file</option>
            <option value="bytes">of the elements</option>
          </select>
        </label>
      </div>
      <div ref={frame}>
        <canvas
          ref={canvas} tabIndex={0} role="img" style={{ height: `${height}px` }}
          aria-label="Map of sizes: each row is a level of the tree, and the wider a rectangle, the more bytes. Arrow keys move, Enter selects. The list below has the same content."
          onPointerMove={(event) => setActive(cellAt(event))} onPointerLeave={() => setActive(undefined)}
          onClick={(event) => choose(cellAt(event))} onKeyDown={onKeyDown} onBlur={() => setActive(undefined)}
        />
      </div>
      <output class="icicle-readout" aria-live="polite">
        {layout.error ?? (active && isCurrent ? describe(active, total) : isCurrent && layout.isAll ? (total > 0 ? '' : 'There are no bytes of tensors here.') : 'Adding up sizes…')}
      </output>
      {isCurrent && total > 0 && (
        <details class="icicle-list" open>
          <summary>Largest in {keyText(focus)}: {formatBytes(total)}</summary>
          <ol>
            {listed.map(({ node, size }) => (
              <li key={node.id}>
                <button type="button" aria-current={node.id === selected?.id ? 'true' : undefined} onClick={() => onSelect(node)}>
                  <span>{keyText(node)}</span> <span class="icicle-size">{formatBytes(size)}, {percent(size / total)}</span>
                </button>
              </li>
            ))}
            {unlisted > 0 && (
              <li class="icicle-size">
                and {unlisted.toLocaleString('en')} more, together {formatBytes(Math.max(total - listedSize, 0))}{' '}
                {listed.length < (layout.top?.kept.length ?? 0) && (
                  <button type="button" class="icicle-more" onClick={() => setListLength(listLength + MORE)}>Show more</button>
                )}
              </li>
            )}
          </ol>
        </details>
      )}
    </section>
  )
}

/**
 * The container drawn as the widest row: the selected one. Selecting a visible leaf does not change it.
 */
function useFocus(checkpoint: Checkpoint, selected: Node | undefined): Node {
  const last = useRef<Node>()
  const next = (): Node => {
    if (!selected) return checkpoint.root
    const path = [...ancestors(selected), selected]
    // Nodes of the metadata have no tensors to map.
    if (path[0]!.id !== checkpoint.root.id) return checkpoint.root
    if (selected.size > 0) return selected
    const current = last.current
    return (current && path.find((node) => node.id === current.id)) ?? selected.parent ?? checkpoint.root
  }
  const node = next()
  last.current = node
  return node
}

/** The nodes above a node, the root first. */
function ancestors(node: Node): Node[] {
  const found: Node[] = []
  for (let at = node.parent; at; at = at.parent) found.unshift(at)
  return found
}

function ancestorCell(node: Node, depth: number, width: number): Cell {
  return { node, parent: undefined, count: 1, size: NaN, depth, x: 0, width, branch: 0 }
}

function describe(cell: Cell, total: number): string {
  const size = Number.isNaN(cell.size) ? '' : `: ${formatBytes(cell.size)}, ${percent(cell.size / total)} of what is shown`
  const { node } = cell
  const what = node ? (node.tensor ? `, ${node.tensor.dtype} [${node.tensor.shape.join(', ')}]` : node.size > 0 ? `, ${node.size.toLocaleString('en')} children` : '') : ' too small to be drawn'
  return `${cellName(cell)}${size}${what}`
}

function percent(part: number): string {
  return `${(100 * part).toLocaleString('en', { maximumSignificantDigits: 3 })} %`
}
