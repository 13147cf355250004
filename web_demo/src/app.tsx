// The page: the open files, the tree at the left, the panes at the right; or a run.
import { useCallback, useEffect, useReducer, useRef, useState } from 'preact/hooks'
import { besideOf, type Beside } from './data/beside'
import { shortDigest } from './data/digest'
import { formatLink, parseLink, type Link } from './data/link'
import { linkedFields, onLinked, setLinked, useLinked } from './data/linked'
import { recall, remember } from './data/memory'
import { EXAMPLE, EXAMPLE_LATER, EXAMPLE_RUN, nameOf, type Input, type OpenFile } from './data/open-file'
import { nearest, useFiles } from './data/use-files'
import { useHistory } from './data/use-history'
import { useDrop } from './open/drop-zone'
import type { Dropped, Folder } from './open/dropped'
import { OpenBar } from './open/open-bar'
import { Opening } from './open/opening'
import { servedFiles, type ServedFile } from './open/served-files'
import type { WantedFile } from './open/wanted-file'
import { focusPane, Pane } from './pane/pane'
import type { RunSource } from './run/source'
import { TreePane } from './tree/tree-pane'
import { lazy, part, loadParts } from './ui/lazy'
import { Meter } from './ui/meter'
import { useShortcuts } from './ui/shortcuts'
import { ThemeSwitch } from './ui/theme'
import { visible } from './ui/visible'

const Frame = lazy(async () => (await import('./tree/frame')).Frame)
const ProblemPage = lazy(async () => (await import('./open/problem-page')).ProblemPage)
const CopyLink = lazy(async () => (await import('./open/copy-link')).CopyLink)
const Welcome = lazy(async () => (await import('./open/welcome')).Welcome)
const WantedFileNote = lazy(async () => (await import('./open/wanted-file')).WantedFileNote)
const Hello = lazy(async () => (await import('./open/hello')).Hello)
const Keys = lazy(async () => (await import('./ui/keys')).Keys)
const RunPage = lazy(async () => (await import('./run/run-page')).RunPage)
const runs = part(() => import('./run/source'))
const folders = part(() => import('./open/folders'))
const handles = part(() => import('./open/handles'))

const VISITED = 'espalier.visited'
/** The parts of the link that a newly opened file begins without. */
const FRESH = { part: '', tab: '', filter: '', dtype: '', size: '', at: '' }

/** The parts of the link that are about a run; the others are about files. */
const RUN_FIELDS = new Set(['title', 'series', 'scope', 'rows', 'step', 'row', 'also', 'metrics', 'find', 'sort', 'scale', 'against'])

/** The whole page. */
export function App() {
  // A narrow page shows either the tree or the pane, and Back returns to the tree.
  const [part, setPart] = useLinked<'' | 'tree' | 'pane'>('part', '', 'push')
  const showPane = (isShown: boolean): void => setPart(!matchMedia('(max-width: 760px)').matches ? '' : isShown ? 'pane' : 'tree')
  // By the file's number.
  const [selected, setSelected] = useState<Readonly<Record<number, number>>>({})
  const [missing, setMissing] = useState<{ readonly file: number; readonly key: string }>()
  const [hashesVersion, noteHashes] = useReducer((count: number) => count + 1, 0)
  // How far the nodes of the shown file moved, once it is compared with another.
  const [changes, setChanges] = useState<{ readonly of: (item: number) => number | undefined }>()
  const noteChanges = useCallback((of: ((item: number) => number | undefined) | undefined) => setChanges(of && { of }), [])
  const [, noteLinked] = useReducer((count: number) => count + 1, 0)
  const [served, setServed] = useState<readonly ServedFile[]>()
  // The file of a link that could not be loaded, to be given by hand.
  const [wanted, setWanted] = useState<WantedFile>()
  const lastWanted = useRef(wanted)
  lastWanted.current = wanted
  const [listProblem, setListProblem] = useState<{ readonly name: string; readonly error: unknown; readonly retry: () => void }>()
  // Until the page knows whether it opens something, an invitation to do so would only flash up.
  const [isStarting, setStarting] = useState(true)
  const [isHello, setHello] = useState(false)
  const [areKeysShown, setKeysShown] = useState(false)
  const [isOfKey] = useState(() => /[#&]key=/.test(location.hash))
  const [run, setRun] = useState<RunSource>()
  const [isRunShown, setRunShown] = useState(false)
  const [tab, setTab] = useLinked('tab', 'node', 'push')
  const select = useCallback((file: OpenFile, item: number, lacking?: string) => {
    setSelected((before) => ({ ...before, [file.number]: item }))
    setMissing(lacking === undefined ? undefined : { file: file.number, key: lacking })
  }, [])
  const files = useFiles(select)
  const { current, opening, failure, add } = files
  const last = useRef(files)
  last.current = files
  const hello = useRef(isHello)
  hello.current = isHello

  const follow = useCallback(() => {
    void openLink(parseLink(location.hash)).finally(() => setStarting(false))
    remember(VISITED, 'yes')
  }, [])
  useEffect(follow, [])

  const item = current && selected[current.number]
  const linkFiles = files.files.filter(({ address }) => address !== undefined)
  // A link for others also says by what they know the files.
  const linkTo = (named: readonly OpenFile[], isForOthers: boolean): string => formatLink({
    run: isRunShown ? run?.address : undefined,
    files: named.map((file) => ({
      url: file.address ?? '', name: file.address === undefined ? file.name : undefined, digest: isForOthers ? shortDigest(file.checkpoint) : undefined,
      key: file.outline.node(selected[file.number] ?? file.outline.tops[0]!).path, map: file.map,
    })),
    shown: current && named.includes(current) ? named.indexOf(current) : undefined,
    fields: Object.fromEntries(Object.entries(linkedFields()).filter(([name]) => RUN_FIELDS.has(name) === isRunShown)),
  })
  const link = linkTo(linkFiles, false)
  const shown = isRunShown ? { file: undefined, item: undefined, fields: linkedFields() } : current && item !== undefined ? { file: current.number, item, fields: linkedFields() } : undefined
  const mark = useHistory(shown, link, ({ file, item, fields }) => {
    mark('replace')
    setLinked(fields, 'replace', true)
    const known = last.current.files.find(({ number }) => number === file)
    if (known) {
      setRunShown(false)
      last.current.show(known)
      select(known, item!)
    } else follow()
  }, follow)
  useEffect(() => onLinked((step) => {
    if (step === 'push') mark(step)
    noteLinked(undefined)
  }), [])

  /** Opens what the user names. */
  const open = useCallback(async (inputs: readonly Input[], beside?: Beside, key?: string): Promise<OpenFile | undefined> => {
    mark('push')
    const asked = lastWanted.current
    const file = await add(inputs, { beside, key: key ?? asked?.key })
    setRunShown(false)
    if (file) {
      if (asked) {
        const digest = shortDigest(file.checkpoint)
        setWanted(asked.digest === undefined || digest === asked.digest ? undefined : { ...asked, given: { name: file.name, digest } })
        last.current.dismiss()
      } else setLinked(FRESH, 'replace')
      // Whoever has a file of their own has seen the example.
      const example = last.current.files.find(({ address }) => address === EXAMPLE)
      if (example && hello.current && !inputs.some(isOfExample)) {
        setHello(false)
        last.current.close(example)
      }
    }
    else mark('replace')
    return file
  }, [])

  const openRun = useCallback(async (from: string | Folder, title?: string): Promise<void> => {
    const { servedRun, folderRun } = await runs()
    setRun((before) => (typeof from === 'string' && before?.address === from ? before : typeof from === 'string' ? servedRun(from, title) : folderRun(from)))
    mark('push')
    setRunShown(true)
  }, [])

  const openFolder = useCallback(async (folder: Folder): Promise<void> => {
    const { contentsOf, folderOf } = await folders()
    const { groups, all, problem } = contentsOf(folder)
    setListProblem(problem && {
      ...problem,
      retry: () => void (async () => openFolder(folder.handle ? await folderOf(folder.handle) : folder))(),
    })
    const { isRunFolder, folderRun } = await runs()
    // The newest step of Orbax opens, and the run has the others to choose from.
    if (all.length > groups.length) setRun(folderRun(folder))
    else if (isRunFolder(folder)) return openRun(folder)
    for (const { inputs, beside } of groups) openTogether(inputs, beside)
  }, [])

  const openTogether = useCallback((inputs: readonly File[], beside: Beside): void => {
    const partOf = last.current.files.find((file) => isPartOf(inputs, file))
    if (partOf) last.current.addParts(partOf, beside)
    else void open(inputs, beside)
  }, [])

  const isOver = useDrop(useCallback(async (what: Dropped) => {
    const { files, handles: given, folders: dropped } = what
    const whole = dropped.length > 0 ? (await folders()).asOneFolder(what) : undefined
    if (whole) void openFolder(whole)
    else {
      if (files.length > 0) openTogether(files, besideOf(files))
      for (const folder of dropped) void openFolder(folder)
    }
    const all = [...given, ...dropped.flatMap(({ handle }) => handle ?? [])]
    if (all.length > 0) void handles().then(({ rememberHandles }) => rememberHandles(all)).catch(() => {})
  }, []))

  async function openLink(link: Link): Promise<void> {
    setLinked(link.fields, 'replace', true)
    if (link.run !== undefined) await openRun(link.run, link.fields.title)
    if (link.files.length > 0) await followFiles(link)
    else if (link.isList) {
      try {
        const list = await servedFiles()
        setServed(list)
        if (list.length <= 2) await open(list.map(({ url }) => url))
      } catch (error) {
        setListProblem({ name: 'The list of files', error, retry: follow })
      }
    } else if (link.run === undefined && !recall(VISITED)) {
      setHello(true)
      await add([EXAMPLE])
    }
  }

  /** Opens the files of a link, or shows those that are open already. */
  async function followFiles({ files: wanted, shown = wanted.length - 1, run }: Link): Promise<void> {
    let toShow: OpenFile | undefined
    for (const [i, { url, name, digest, key, map }] of wanted.entries()) {
      const known = last.current.files.find((file) => (name === undefined ? file.address === url : file.address === undefined && file.name === name && shortDigest(file.checkpoint) === digest) && file.map?.map === map?.map)
      const file = known ?? (name === undefined ? await add([url], { key, map, isMore: i > 0 }) : undefined)
      if (!file && (name !== undefined || digest !== undefined)) setWanted({ name: name ?? nameOf(url), digest, key })
      else if (file && digest !== undefined && shortDigest(file.checkpoint) !== digest && map === undefined) {
        setWanted({ name: name ?? nameOf(url), digest, key, given: { name: file.name, digest: shortDigest(file.checkpoint) } })
      }
      if (known) {
        const found = nearest(known, key ?? '')
        select(known, found.item, found.isExact ? undefined : key)
      }
      if (i === shown) toShow = file
    }
    if (toShow) last.current.show(toShow)
    if (run === undefined) setRunShown(false)
  }

  useEffect(() => {
    // Only after the first content is shown, which has priority.
    if (current) void loadParts()
  }, [current !== undefined])
  const title = isRunShown ? run?.name : current?.name
  useEffect(() => {
    document.title = title === undefined ? 'Espalier: checkpoint viewer' : `${visible(title)} - Espalier`
  }, [title])

  const choose = (file: OpenFile, to: number): void => {
    mark('push')
    // It is a place in the tensor that is left.
    setLinked({ at: '' }, 'replace')
    select(file, to)
  }
  const showFile = (file: OpenFile): void => {
    mark('push')
    setLinked({ at: '' }, 'replace')
    setRunShown(false)
    files.show(file)
  }
  const compare = async (later?: string): Promise<void> => {
    if (later !== undefined && !(await open([later]))) return
    setRunShown(false)
    setTab('diff')
    showPane(true)
    // The button that was pressed is gone.
    setTimeout(focusPane)
  }
  useShortcuts({
    '/': () => {
      const focus = (): void => document.querySelector<HTMLElement>('form[role=search] input[type=search]')?.focus()
      if (!isRunShown) showPane(false)
      // What is typed next is for it. Where a narrow page hides it still, it comes with the tree.
      focus()
      setTimeout(focus)
    },
    '?': () => setKeysShown(true),
  })
  const fileList = useRef<HTMLUListElement>(null)
  // The list scrolls on a narrow page.
  useEffect(() => fileList.current?.querySelector('.is-current')?.scrollIntoView({ block: 'nearest', inline: 'nearest' }), [current, isRunShown, files.files.length])
  // On a narrow page, what a link names is in the pane.
  const isPaneShown = part === 'pane' || (part === '' && (tab !== 'node' || isOfKey))
  const problem = failure ?? listProblem
  const isExample = isHello && !isRunShown && current?.address === EXAMPLE
  return (
    <>
      <header class={files.files.length > 0 || run ? 'has-files' : ''}>
        {current && !isRunShown && <a class="skip" href="#tree" onClick={(event) => {
          event.preventDefault()
          showPane(false)
          setTimeout(() => document.querySelector<HTMLElement>('.grid-body [tabindex="0"]')?.focus())
        }}>To the tree</a>}
        <h1 class="brand"><a href="./">Espalier</a></h1>
        <OpenBar served={served} onOpen={(inputs) => void open(inputs)} onFolder={(folder) => void openFolder(folder)} />
        {(files.files.length > 0 || run) && (
          <ul ref={fileList} class="files" aria-label="Open files">
            {run && (
              <li class={isRunShown ? 'is-current' : ''}>
                <button type="button" class="plain" aria-current={isRunShown} onClick={() => {
                  mark('push')
                  setRunShown(true)
                }}>Run {visible(run.name)}</button>
                <button type="button" class="plain" aria-label={`Close run ${visible(run.name)}`} onClick={() => {
                  setRun(undefined)
                  setRunShown(false)
                }}>×</button>
              </li>
            )}
            {files.files.map((file) => (
              <li class={file === current && !isRunShown ? 'is-current' : ''}>
                <button type="button" class="plain" aria-current={file === current && !isRunShown} title={visible(file.url ?? file.name)} onClick={() => showFile(file)}>{visible(file.name)}</button>
                <button type="button" class="plain" aria-label={`Close ${visible(file.name)}`} onClick={() => files.close(file)}>×</button>
              </li>
            ))}
          </ul>
        )}
        {files.files.length > 1 && (tab !== 'diff' || isRunShown) && <button type="button" onClick={() => void compare()}>Compare</button>}
        {(link || files.files.length > 0) && <CopyLink link={linkTo(isRunShown ? [] : files.files, true)} />}
        <button type="button" class="plain keys-button" title="What keys do (?)" onClick={() => setKeysShown(true)}>Keys</button>
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
              else listProblem?.retry()
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
        {wanted && !isRunShown && <WantedFileNote wanted={wanted} onFiles={(given) => openTogether(given, besideOf(given))} onDismiss={() => setWanted(undefined)} />}
        {isExample && <Hello onCompare={() => void compare(EXAMPLE_LATER)} onRun={() => void openRun(EXAMPLE_RUN)} onDismiss={() => setHello(false)} />}
        {missing && current?.number === missing.file && !isRunShown && (
          <p class="missing" role="alert">
            {visible(current.name)} has no <code>{visible(missing.key)}</code>, which the link names. The nearest container that it has is shown.{' '}
            <button type="button" class="plain" onClick={() => setMissing(undefined)}>Dismiss</button>
          </p>
        )}
        {isRunShown && run ? <RunPage key={run.name} run={run} onOpen={({ input, beside }, key) => void open([input], beside, key)} onCompare={async (pair) => {
          for (const { input, beside } of pair) if (!(await open([input], beside))) return
          setTab('diff')
        }} /> : current && item !== undefined ? (
          <div class={isPaneShown ? 'work is-pane-shown' : 'work'} key={current.number}>
            <TreePane file={current} selected={item} version={hashesVersion} changeOf={changes?.of} onSelect={(to) => choose(current, to)} onNested={(isNested) => files.setNested(current, isNested)} onPress={() => showPane(true)} onEnter={() => {
              showPane(true)
              setTimeout(focusPane)
            }} />
            <Frame file={current} selected={item} onSelect={(to) => choose(current, to)} onBack={() => showPane(false)} />
            <Pane file={current} files={files.files} selected={item} version={hashesVersion} onSelect={(to) => choose(current, to)} onParts={(parts) => files.addParts(current, besideOf(parts))} onHashes={() => noteHashes(undefined)} onChanges={noteChanges} />
          </div>
        ) : !opening && !problem && !isStarting && !wanted && <Welcome served={served} onOpen={(inputs) => void open(inputs)} onFolder={(folder) => void openFolder(folder)} onExample={() => {
          setHello(true)
          void open([EXAMPLE])
        }} />}
      </main>
      {areKeysShown && <Keys onClose={() => setKeysShown(false)} />}
      {current && !isRunShown && <Meter key={current.number} checkpoint={current.checkpoint} />}
    </>
  )
}

function isOfExample(input: Input): boolean {
  return input === EXAMPLE || input === EXAMPLE_LATER
}

/** Whether all of these files are ones that an open local file lacks. */
function isPartOf(inputs: readonly File[], { address, checkpoint }: OpenFile): boolean {
  if (address !== undefined || inputs.length === 0) return false
  const lacking = new Set(checkpoint.furtherFiles.filter(({ problem }) => problem).map(({ name }) => name))
  return lacking.size > 0 && inputs.every(({ name }) => lacking.has(name))
}
