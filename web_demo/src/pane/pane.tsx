// The right side: the selection, and the panes about the whole file.
import { useEffect, useState } from 'preact/hooks'
import type { Examination, Node } from 'espalier'
import type { ComponentChildren } from 'preact'
import { setLinked, useLinked } from '../data/linked'
import type { OpenFile } from '../data/open-file'
import { useExamination } from '../health/examination'
import { lazy } from '../ui/lazy'
import { Tabs } from '../ui/tabs'

const TensorPane = lazy(async () => (await import('../tensor/tensor-pane')).TensorPane)
const StatePane = lazy(async () => (await import('../state/state-pane')).StatePane)
const Icicle = lazy(async () => (await import('../map/icicle')).Icicle)
const FurtherFiles = lazy(async () => (await import('./further-files')).FurtherFiles)
const Notes = lazy(async () => (await import('./notes')).Notes)
const Summary = lazy(async () => (await import('./summary')).Summary)
const VerifyPane = lazy(async () => (await import('../verify/verify-pane')).VerifyPane)
const HealthPane = lazy(async () => (await import('../health/health-pane')).HealthPane)
const TensorsPane = lazy(async () => (await import('../health/tensors-pane')).TensorsPane)
const DiffPane = lazy(async () => (await import('../diff/diff-pane')).DiffPane)

type Tab = 'node' | 'health' | 'tensors' | 'map' | 'verify' | 'diff'

interface PaneProps {
  readonly file: OpenFile
  /** All open files, to compare with. */
  readonly files: readonly OpenFile[]
  readonly selected: number
  /** Increments when hash results change. */
  readonly version: number
  onSelect(item: number): void
  /** Called with files that the checkpoint lacks. */
  onParts(parts: readonly File[]): void
  /** Called when hash results change. */
  onHashes(): void
  /** Called with how far each node moved: see DiffPane. */
  onChanges(changeOf: ((item: number) => number | undefined) | undefined): void
}

/** Shows the selection in a file. Use a new component for another file. */
export function Pane({ file, files, selected, version, onSelect, onParts, onHashes, onChanges }: PaneProps) {
  const { checkpoint, outline } = file
  const [wanted, setTab] = useLinked<Tab>('tab', 'node', 'push')
  const [visited, setVisited] = useState<ReadonlySet<Tab>>(new Set(['node']))
  const examination = useExamination(file)
  useEffect(() => examination.startSoon(), [examination])
  const node = outline.node(selected)
  const { tensor } = node
  const tabs = [
    { id: 'node', name: tensor ? 'Tensor' : 'State' },
    { id: 'health', name: healthName(examination.state.result) },
    { id: 'tensors', name: 'All tensors' },
    { id: 'map', name: 'Map' },
    { id: 'verify', name: 'Verify' },
    { id: 'diff', name: 'Diff' },
  ] as const
  // A link may name a tab that there is not.
  const tab = tabs.some(({ id }) => id === wanted) ? wanted : 'node'
  useEffect(() => setVisited((before) => new Set(before).add(tab)), [tab])
  const selectNode = ({ id }: Node): void => onSelect(id)
  const showNode = (item: number, fields?: Readonly<Record<string, string>>): void => {
    onSelect(item)
    setLinked({ tab: '', ...fields }, 'replace')
    setTimeout(focusPane)
  }
  const selectNoted = (item: number): void => {
    onSelect(item)
    // The note is gone, and the keyboard's place with it.
    focusPane()
  }
  const panel = (id: Tab, content: ComponentChildren) => (
    <div role="tabpanel" id={`panel-${id}`} aria-labelledby={`tab-${id}`} tabIndex={0} hidden={tab !== id}>
      {content}
    </div>
  )
  return (
    <section class="pane" aria-label="Details">
      <Tabs<Tab> label="Panes" tabs={tabs} current={tab} onChange={setTab} />
      {panel('node', tab === 'node' && (
        <>
          {selected === outline.tops[0] && checkpoint.fileNames.length > 0 && <FurtherFiles file={file} onParts={onParts} />}
          {selected === outline.tops[0] && checkpoint.noteCount > 0 && <Notes file={file} onSelect={selectNoted} />}
          {tensor
            ? <TensorPane key={tensor.node.id} tensor={tensor} file={file} files={files} />
            : <>
                <StatePane key={node.id} node={node} checkpoint={checkpoint} />
                {node.size > 0 && <Summary file={file} item={selected} />}
              </>}
        </>
      ))}
      {panel('health', tab === 'health' && <HealthPane file={file} onSelect={showNode} />)}
      {panel('tensors', tab === 'tensors' && <TensorsPane file={file} selected={selected} onSelect={showNode} />)}
      {panel('map', tab === 'map' && <Icicle checkpoint={checkpoint} selected={node} onSelect={selectNode} />)}
      {/* Its work continues while other panes are shown. */}
      {panel('verify', visited.has('verify') && <VerifyPane file={file} selected={selected} onSelect={onSelect} onHashes={onHashes} />)}
      {panel('diff', visited.has('diff') && <DiffPane file={file} files={files} version={version} onSelect={onSelect} onHashes={onHashes} onChanges={onChanges} />)}
    </section>
  )
}

/** 'Health', and how many findings there are that are more than notes, or else how many notes. A narrow page has no place for a word. */
function healthName(result: Examination | undefined): ComponentChildren {
  if (!result) return 'Health'
  const { length } = result.findings
  const notes = result.findings.filter(({ severity }) => severity === 'note').length
  if (length === 0) return 'Health ✓'
  return length > notes ? `Health (${length - notes})` : <>Health ({notes}<span class="wide">{notes === 1 ? ' note' : ' notes'}</span>)</>
}

/** Moves the focus to the shown pane. */
export function focusPane(): void {
  document.querySelector<HTMLElement>('[role="tabpanel"]:not([hidden])')?.focus()
}
