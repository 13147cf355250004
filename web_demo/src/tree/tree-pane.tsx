// The left side: the filter, and the tree or the filter's matches.
import { useEffect, useLayoutEffect, useMemo, useReducer, useRef, useState } from 'preact/hooks'
import { useLinked } from '../data/linked'
import type { OpenFile } from '../data/open-file'
import { runInTurns, type Work } from '../data/slices'
import type { Arranging } from './arrangement'
import { columnsOf, longestType } from './columns'
import { FilterBar } from './filter-bar'
import { useLinkedFilter } from './linked-filter'
import { loadTools } from './load-tools'
import { formatOrder, nextOrder, parseOrder, STORED } from './order'
import { TreeRows } from './row-source'
import { TreeGrid } from './tree-grid'
import { useMatches } from './use-matches'

interface TreePaneProps {
  readonly file: OpenFile
  /** The number of the node in the pane. */
  readonly selected: number | undefined
  /** Increments when hash results change. */
  readonly version: number
  /** How far a node moved, if that is known. */
  readonly changeOf?: ((node: number) => number | undefined) | undefined
  onSelect(node: number): void
  /** Called to split dotted names into a tree, or to show them as stored. */
  onNested(isNested: boolean): void
  /** Called when a row is pressed with a pointer: a narrow page then shows the pane. */
  onPress(): void
  onEnter(): void
}

/** Milliseconds of keyboard rest on a row before it is shown in the pane, so that rows on the way are skipped. */
const REST = 120

/** Shows the tree of a file. Use a new component for another file. */
export function TreePane({ file, selected, version, changeOf, onSelect, onNested, onPress, onEnter }: TreePaneProps) {
  const { arrangement, outline } = file
  const [drawn, redraw] = useReducer((count: number) => count + 1, 0)
  const [filter, setFilter] = useLinkedFilter()
  const [sort, setSort] = useLinked('sort', '')
  const order = useMemo(() => parseOrder(sort), [sort])
  const [matches, found] = useMatches(file, filter, order)
  const [said, setSaid] = useState('')
  const tree = useMemo(() => new TreeRows(file), [file])
  const rows = matches ?? tree
  const columns = useMemo(() => columnsOf(file), [file])
  const [active, setActive] = useState(() => Math.max(0, file.rows.rowOf(tree.itemOf(selected ?? outline.tops[0]!))))
  const section = useRef<HTMLElement>(null)
  const resting = useRef(0)
  const running = useRef<AbortController>()
  // Whether the rows do not match the arrangement's settings yet.
  const isSwitching = useRef(false)
  // The latest change of the arrangement: begun, once it is resolved.
  const changing = useRef(Promise.resolve())
  useEffect(() => () => running.current?.abort(), [])
  // Before the matches are drawn, or they would be drawn twice.
  useLayoutEffect(() => matches && setActive(0), [matches])

  const dtypes = useMemo(() => outline.totalsByDType(outline.tops[0]!).map(({ dtype }) => dtype).sort(), [outline])

  // A selection made elsewhere (the map, a link) is shown in the tree.
  const own = useRef<number>()
  useEffect(() => {
    if (selected === undefined || selected === own.current || matches) return
    own.current = selected
    const row = file.rows.reveal(tree.itemOf(selected))
    if (row >= 0) setActive(row)
    redraw(undefined)
  }, [selected, matches])

  const select = (row: number): void => {
    const node = rows.node(row)
    // The tree shows a match once the filter is cleared.
    own.current = matches ? undefined : node
    onSelect(node)
  }

  const go = (row: number): void => {
    setActive(row)
    clearTimeout(resting.current)
    resting.current = window.setTimeout(() => row < rows.length && select(row), REST)
  }

  /** Draws after the rows have changed, and keeps the focus on the same item if it still exists. */
  const settle = (item: number): void => {
    if (!matches) {
      let row = file.rows.rowOf(item)
      for (let at = arrangement.parent(item); row < 0 && at !== undefined; at = arrangement.parent(at)) row = file.rows.rowOf(at)
      setActive(Math.max(0, row))
    }
    redraw(undefined)
  }

  /** Aborts the running work, which has no visible result yet. */
  const interrupt = (): void => {
    if (!running.current) return
    running.current.abort()
    running.current = undefined
    setSaid('')
  }

  const inTurns = (work: Work<void>, saying: string, then: () => void): void => {
    interrupt()
    const stop = (running.current = new AbortController())
    setSaid(`${saying}...`)
    runInTurns(work, stop.signal, (done) => setSaid(`${saying}: ${Math.round(done * 100)}%`)).then(() => {
      if (stop.signal.aborted) return
      running.current = undefined
      setSaid('')
      then()
    }, (error: unknown) => {
      if (!stop.signal.aborted) setSaid(String(error))
    })
  }

  const arrange = (openAll: boolean): void => {
    const item = file.rows.item(active) ?? outline.tops[0]!
    inTurns(file.rows.rebuild(openAll), 'arranging', () => {
      isSwitching.current = false
      settle(item)
    })
  }

  const setOpen = (row: number, isOpen: boolean): void => {
    // The rows are still the old ones, and some of their items may no longer exist.
    if (isSwitching.current) return
    interrupt()
    const item = rows.item(row)
    const finish = (): void => {
      file.rows.setOpen(item, isOpen)
      settle(isOpen && row !== active ? rows.item(active) : item)
    }
    const sorting = isOpen ? arrangement.arranging(item) : undefined
    if (sorting) inTurns(sorting, 'sorting', finish)
    else finish()
  }

  /** Changes how the tree is arranged. */
  const rearrange = (change: (arranger: Arranging) => void): void => {
    interrupt()
    changing.current = loadTools().then(({ Arranger }) => {
      change((arrangement.arranger ??= new Arranger(outline, arrangement)))
      isSwitching.current = true
      arrange(false)
    })
  }

  useEffect(() => {
    if (formatOrder(arrangement.arranger?.order ?? STORED) !== sort) rearrange((arranger) => { arranger.order = order })
  }, [order])

  // A change that still waits for its tools comes first, or it would undo this.
  const openAll = (): void => void changing.current.catch(() => {}).then(() => arrange(true))

  return (
    <section class="tree" aria-label="Tree" ref={section}>
      <FilterBar
        filter={filter}
        dtypes={dtypes}
        said={said || found}
        areNamesNested={file.areNamesNested}
        areRunsFolded={arrangement.arranger?.areRunsFolded ?? false}
        onFilter={setFilter}
        onDown={() => section.current!.querySelector<HTMLElement>('.grid-body [tabindex="0"]')?.focus()}
        onNested={onNested}
        onFolded={(isFolded) => rearrange((arranger) => { arranger.areRunsFolded = isFolded })}
        onOpenAll={openAll}
        onCloseAll={() => {
          interrupt()
          isSwitching.current = false
          file.rows.closeAll()
          settle(outline.tops[0]!)
        }}
      />
      <TreeGrid
        rows={rows}
        columns={columns}
        order={order}
        longestType={useMemo(() => longestType(file), [file])}
        label={matches ? 'What the filter has found' : `Contents of ${file.name}`}
        active={Math.min(active, Math.max(rows.length - 1, 0))}
        selected={selected}
        version={drawn + version}
        changeOf={changeOf}
        onGo={go}
        onPress={(row) => {
          clearTimeout(resting.current)
          select(row)
          onPress()
        }}
        onOrder={(by) => setSort(formatOrder(nextOrder(order, by)))}
        onOpen={setOpen}
        onOpenSiblings={(row) => {
          if (matches || isSwitching.current) return
          const item = rows.item(row)
          inTurns(file.rows.openSiblings(row), 'expanding', () => settle(item))
        }}
        onEnter={(row) => {
          select(row)
          onEnter()
        }}
      />
    </section>
  )
}
