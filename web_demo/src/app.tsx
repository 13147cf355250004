// The page: the open files, the tree at the left, the panes at the right.
import { useCallback, useEffect, useReducer, useRef, useState } from 'preact/hooks'
import { formatLink, parseLink } from './data/link'
import { recall, remember } from './data/memory'
import { EXAMPLE, type OpenFile } from './data/open-file'
import { useFiles } from './data/use-files'
import { useDrop } from './open/drop-zone'
import type { FileGroup } from './open/folders'
import { OpenBar } from './open/open-bar'
import { Opening } from './open/opening'
import { servedFiles, type ServedFile } from './open/served-files'
import { Welcome } from './open/welcome'
import { focusPane, Pane } from './pane/pane'
import { TreePane } from './tree/tree-pane'
import { lazy, loadParts } from './ui/lazy'
import { Meter } from './ui/meter'
import { ThemeSwitch } from './ui/theme'
import { visible } from './ui/visible'

const Frame = lazy(async () => (await import('./tree/frame')).Frame)
const ProblemPage = lazy(async () => (await import('./open/problem-page')).ProblemPage)

const VISITED = 'espalier.visited'

/** The whole page. */
export function App() {
  // A narrow page shows either the tree or the pane.
  const [isPaneShown, showPane] = useState(false)
  // By the file's number.
  const [selected, setSelected] = useState<Readonly<Record<number, number>>>({})
  const [hashesVersion, noteHashes] = useReducer((count: number) => count + 1, 0)
  // How far the nodes of the shown file moved, once it is compared with another.
  const [changes, setChanges] = useState<{ readonly of: (item: number) => number | undefined }>()
  const noteChanges = useCallback((of: ((item: number) => number | undefined) | undefined) => setChanges(of && { of }), [])
  const [served, setServed] = useState<readonly ServedFile[]>()
  const [listProblem, setListProblem] = useState<{ readonly name: string; readonly error: unknown }>()
  const select = useCallback((file: OpenFile, item: number) => setSelected((before) => ({ ...before, [file.number]: item })), [])
  const files = useFiles(select)
  const { current, opening, failure, add } = files
  const last = useRef(files)
  last.current = files
  const addGroups = useCallback((groups: readonly FileGroup[]) => {
    for (const { inputs, siblings } of groups) {
      const open = last.current.files.find((file) => isPartOf(inputs, file))
      if (open) last.current.addParts(open, siblings)
      else void add(inputs, { siblings })
    }
  }, [])
  const isOver = useDrop(addGroups)

  const follow = useCallback(() => {
    const link = parseLink(location.hash)
    const known = link.key === undefined ? undefined : last.current.files.find(({ address, map }) => address === link.url && map?.map === link.map?.map)
    const node = known && nodeAt(known, link.key!)
    if (known && node !== undefined) {
      // Another node of an open file: no need to open it again.
      last.current.show(known)
      select(known, node)
    } else if (link.url !== undefined) void add([link.url], { key: link.key, map: link.map })
    else if (link.files) {
      servedFiles().then(
        (list) => {
          setServed(list)
          if (list.length === 1) void add([list[0]!.url])
        },
        (error: unknown) => setListProblem({ name: 'The list of files', error }),
      )
    } else if (!recall(VISITED)) void add([EXAMPLE])
    remember(VISITED, 'yes')
  }, [])
  useEffect(() => {
    follow()
    // Only changes by the user: the page's own changes below fire no event.
    addEventListener('hashchange', follow)
    return () => removeEventListener('hashchange', follow)
  }, [])

  useEffect(() => {
    // Only after the first content is shown, which has priority.
    if (current) void loadParts()
  }, [current !== undefined])

  const item = current && selected[current.number]
  useEffect(() => {
    document.title = current ? `${visible(current.name)} - Espalier` : 'Espalier: checkpoint viewer'
    if (!current || item === undefined) return
    const key = current.outline.node(item).path
    history.replaceState(null, '', formatLink(current.address, key, current.map) || location.pathname + location.search)
  }, [current, item])

  const problem = failure ?? listProblem
  return (
    <>
      <header>
        <h1 class="brand"><a href="./">Espalier</a></h1>
        <OpenBar served={served} onOpen={add} onFolder={addGroups} />
        {files.files.length > 0 && (
          <ul class="files" aria-label="Open files">
            {files.files.map((file) => (
              <li class={file === current ? 'is-current' : ''}>
                <button type="button" class="plain" aria-current={file === current} title={visible(file.url ?? file.name)} onClick={() => files.show(file)}>{visible(file.name)}</button>
                <button type="button" class="plain" aria-label={`Close ${visible(file.name)}`} onClick={() => files.close(file)}>×</button>
              </li>
            ))}
          </ul>
        )}
        <ThemeSwitch />
      </header>
      <main class={isOver ? 'is-over' : ''}>
        {opening && <Opening {...opening} />}
        {problem && (
          <ProblemPage
            name={problem.name}
            error={problem.error}
            onRetry={() => {
              setListProblem(undefined)
              if (failure) void add([failure.input], failure)
              else follow()
            }}
            onDismiss={() => {
              setListProblem(undefined)
              files.dismiss()
            }}
            onFetchWhole={failure && (failure.error as { code?: unknown }).code === 'range_not_supported' && typeof failure.input === 'string'
              ? () => void files.addWhole(failure.input as string)
              : undefined}
          />
        )}
        {current && item !== undefined ? (
          <div class={isPaneShown ? 'work is-pane-shown' : 'work'} key={current.number}>
            <TreePane file={current} selected={item} version={hashesVersion} changeOf={changes?.of} onSelect={(to) => select(current, to)} onNested={(isNested) => files.setNested(current, isNested)} onPress={() => showPane(true)} onEnter={() => {
              showPane(true)
              setTimeout(focusPane)
            }} />
            <Frame file={current} selected={item} onSelect={(to) => select(current, to)} onBack={() => showPane(false)} />
            <Pane file={current} files={files.files} selected={item} version={hashesVersion} onSelect={(to) => select(current, to)} onParts={(parts) => files.addParts(current, parts)} onHashes={() => noteHashes(undefined)} onChanges={noteChanges} />
          </div>
        ) : !opening && !problem && <Welcome served={served} onOpen={add} />}
      </main>
      {current && <Meter key={current.number} checkpoint={current.checkpoint} />}
    </>
  )
}

/** Whether all of these files are ones that an open local file lacks. */
function isPartOf(inputs: readonly File[], { address, checkpoint }: OpenFile): boolean {
  if (address !== undefined || inputs.length === 0) return false
  const lacking = new Set(checkpoint.furtherFiles.filter(({ problem }) => problem).map(({ name }) => name))
  return lacking.size > 0 && inputs.every(({ name }) => lacking.has(name))
}

function nodeAt({ checkpoint }: OpenFile, key: string): number | undefined {
  try {
    return checkpoint.get(key)?.id
  } catch {
    return undefined
  }
}
