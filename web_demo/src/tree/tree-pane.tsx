// The left side: the filter, and the tree or the filter's matches.
import { useEffect, useMemo, useReducer, useRef, useState } from 'preact/hooks'
import type { OpenFile } from '../data/open-file'
import { runInTurns, type Work } from '../data/slices'
import { formatExact } from '../ui/format'
import { findMatches, isFiltering, type Matches } from './filter'
import { FilterBar } from './filter-bar'
import { useLinkedFilter } from './linked-filter'
import { MatchRows, TreeRows, type RowSource } from './row-source'
import { TreeGrid } from './tree-grid'

interface TreePaneProps {
  readonly file: OpenFile
  readonly selected: number | undefined
  /** Increments when hash results change. */
  readonly version: number
  onSelect(item: number): void
  /** Called to split dotted names into a tree, or to show them as stored. */
  onNested(isNested: boolean): void
  onEnter(): void
}

/** Milliseconds of keyboard rest on a row before it is shown in the pane, so that rows on the way are skipped. */
const REST = 120
/** Milliseconds that a filter waits for the next letter; a search among a million names takes as long. */
const TYPING = 10

/** Shows the tree of a file. Use a new component for another file. */
export function TreePane({ file, selected, version, onSelect, onNested, onEnter }: TreePaneProps) {
  const { checkpoint, outline } = file
  const [drawn, redraw] = useReducer((count: number) => count + 1, 0)
  const [filter, setFilter] = useLinkedFilter()
  const [matches, setMatches] = useState<Matches>()
  const [said, setSaid] = useState('')
  const [active, setActive] = useState(() => Math.max(0, file.rows.rowOf(selected ?? outline.tops[0]!)))
  const resting = useRef(0)
  const running = useRef<AbortController>()
  // Whether the rows do not match the outline's settings yet.
  const isSwitching = useRef(false)
  useEffect(() => () => running.current?.abort(), [])

  const rows: RowSource = useMemo(
    () => matches ? new MatchRows(file, matches.length, matches.itemAt) : new TreeRows(file),
    [file, matches],
  )

  const dtypes = useMemo(() => outline.totalsByDType(outline.tops[0]!).map(({ dtype }) => dtype).sort(), [outline])

  useEffect(() => {
    if (!isFiltering(filter)) {
      setMatches(undefined)
      setSaid('')
      return
    }
    const timer = setTimeout(() => {
      try {
        const found = findMatches(checkpoint, filter)
        setMatches(found)
        setActive(0)
        setSaid(found.length === 0 ? 'nothing found' : `${formatExact(found.length)} found`)
      } catch (error) {
        setSaid(error instanceof Error ? error.message : String(error))
      }
    }, TYPING)
    return () => clearTimeout(timer)
  }, [checkpoint, filter])

  // A selection made elsewhere (the map, a link) is shown in the tree.
  const own = useRef<number>()
  useEffect(() => {
    if (selected === undefined || selected === own.current || matches) return
    let row = file.rows.reveal(selected)
    for (let at = outline.parent(selected); row < 0 && at !== undefined; at = outline.parent(at)) {
      outline.unfold(at)
      arrange(false)
      row = file.rows.reveal(selected)
    }
    own.current = selected
    if (row >= 0) setActive(row)
    redraw(undefined)
  }, [selected, matches])

  const select = (row: number): void => {
    own.current = rows.item(row)
    onSelect(own.current)
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
      for (let at = outline.parent(item); row < 0 && at !== undefined; at = outline.parent(at)) row = file.rows.rowOf(at)
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
    file.rows.setOpen(item, isOpen)
    settle(isOpen && row !== active ? rows.item(active) : item)
  }

  return (
    <section class="tree" aria-label="Tree">
      <FilterBar
        filter={filter}
        dtypes={dtypes}
        said={said}
        areNamesNested={file.areNamesNested}
        areRunsFolded={outline.areRunsFolded}
        onFilter={setFilter}
        onNested={onNested}
        onFolded={(isFolded) => {
          isSwitching.current = true
          outline.areRunsFolded = isFolded
          arrange(false)
        }}
        onOpenAll={() => arrange(true)}
        onCloseAll={() => {
          interrupt()
          isSwitching.current = false
          file.rows.closeAll()
          settle(outline.tops[0]!)
        }}
      />
      <TreeGrid
        rows={rows}
        label={matches ? 'What the filter has found' : `Contents of ${file.name}`}
        active={Math.min(active, Math.max(rows.length - 1, 0))}
        selected={selected}
        version={drawn + version}
        onGo={go}
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
