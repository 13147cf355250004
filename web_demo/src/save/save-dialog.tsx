// The dialog that saves the selection as a file.
import { planSafetensors, type WrittenSafetensors } from 'espalier'
import { useEffect, useMemo, useRef, useState } from 'preact/hooks'
import type { OpenFile } from '../data/open-file'
import { canStream, MEMORY_BYTES } from '../tensor/save-file'
import { useTask } from '../tensor/use-task'
import { counted, formatBytes, formatExact } from '../ui/format'
import { ByteProgress } from '../ui/progress'
import { visible, visibleText } from '../ui/visible'
import { asStored, type AsStored } from './as-stored'
import { firstName, suggestedName, treeOf, whyNot, withEnding, type SaveFormat } from './plan'
import { save, type Saved, type SaveSettings } from './save'
import { chooseTarget } from './target'
import './save.css'

const LEVELS = [[0, 'none'], [1, 'fast (level 1)'], [6, 'thorough (level 6)']] as const

/** What a safetensors file would lack, or why there can be none. */
type Fit = WrittenSafetensors['dropped'] | string

interface SaveDialogProps {
  readonly file: OpenFile
  readonly item: number
  /** Whether the tree has a filter, which does not count here. */
  readonly isFiltered: boolean
  onClose(): void
}

/** Saves an item of a file. */
export function SaveDialog({ file, item, isFiltered, onClose }: SaveDialogProps) {
  const { checkpoint, outline } = file
  const node = outline.node(item)
  const isWhole = item === outline.tops[0]
  const { tensors, bytes } = outline.totals(item)
  const dialog = useRef<HTMLDialogElement>(null)
  const [format, setFormat] = useState<SaveFormat>('espalier')
  const [compressionLevel, setLevel] = useState(0)
  const [unrepresentable, setUnrepresentable] = useState<SaveSettings['unrepresentable']>('metadata')
  const [isMetadataKept, keepMetadata] = useState(true)
  const [isPathKept, keepPath] = useState(false)
  const [typed, setTyped] = useState<string>()
  const [source, setSource] = useState<AsStored>()
  const [fit, setFit] = useState<Fit>()
  const task = useTask<Saved | undefined>()
  const hasMetadata = isWhole && checkpoint.metadata.size > 0
  const metadata = hasMetadata && isMetadataKept ? source?.metadata : undefined
  const suggestion = suggestedName(file.name, isWhole ? '' : item === outline.tops[1] ? 'metadata' : node.path, format)
  const isRunning = task.state === 'running'
  const title = <code>{isWhole ? visible(file.name) : visible(outline.name(item)) || '""'}</code>
  // Of a part: what the tensors are called in a file of names.
  const example = useMemo(() => (format === 'safetensors' && !isWhole && source ? firstName(source.node, isPathKept) : undefined), [format, source, isPathKept])
  const tree = useMemo(() => source && treeOf(source.node, format === 'safetensors' && isPathKept), [format, source, isPathKept])

  useEffect(() => dialog.current!.showModal(), [])
  useEffect(() => {
    const stop = new AbortController()
    let opened: AsStored | undefined
    asStored(file, node, stop.signal).then(
      (found) => {
        if (stop.signal.aborted) return found.close()
        opened = found
        setSource(found)
      },
      (error: unknown) => stop.signal.aborted || setFit(whyNot(error)),
    )
    return () => {
      stop.abort()
      opened?.close()
    }
  }, [])
  useEffect(() => {
    if (!tree) return
    setFit(undefined)
    if (format === 'espalier') return
    const stop = new AbortController()
    planSafetensors(tree, { unrepresentable: 'drop', metadata, signal: stop.signal }).then(
      ({ dropped }) => stop.signal.aborted || setFit(dropped),
      (error: unknown) => stop.signal.aborted || setFit(whyNot(error)),
    )
    return () => stop.abort()
  }, [tree, format, metadata])

  const start = (event: Event): void => {
    event.preventDefault()
    if (!tree) return
    const name = withEnding(typed?.trim() || suggestion, format)
    task.start((signal, onProgress) => save(() => chooseTarget(name), tree, { format, compressionLevel, unrepresentable, metadata }, { signal, onProgress }))
  }
  const radio = (group: string, label: string, isChosen: boolean, choose: () => void) => (
    <label><input type="radio" name={group} checked={isChosen} onChange={choose} /> {label}</label>
  )
  return (
    <dialog ref={dialog} class="save" aria-labelledby="save-title" onClose={onClose}>
      <form onSubmit={start}>
        <h2 id="save-title">Save {title} as a file</h2>
        <p>{counted(tensors, 'tensor')}, {formatBytes(bytes)} ({formatExact(bytes)} bytes) without compression</p>
        {isFiltered && <p class="save-filter">The filter is not applied: all of {title} is saved.</p>}
        <fieldset disabled={isRunning}>
          <legend>Format</legend>
          {(['espalier', 'safetensors'] as const).map((each) => radio('save-format', `.${each}`, format === each, () => {
            setFormat(each)
            setTyped((before) => before && withEnding(before, each))
          }))}
        </fieldset>
        {format === 'espalier' && (
          <fieldset disabled={isRunning}>
            <legend>Compression</legend>
            {LEVELS.map(([level, label]) => radio('save-level', label, compressionLevel === level, () => setLevel(level)))}
          </fieldset>
        )}
        {typeof fit === 'string' && <p class="bad" role="alert">{visibleText(fit)}</p>}
        {format === 'safetensors' && (fit === undefined
          ? <p class="quiet">Looking for what safetensors cannot hold...</p>
          : typeof fit === 'object' && fit.count > 0 && (
            <fieldset disabled={isRunning} class="save-lost">
              <legend>{counted(fit.count, 'value')} that safetensors cannot hold</legend>
              <ul tabIndex={0} aria-label="The first of them">
                {fit.first.map(({ path, what }) => <li>{path !== '' && <><code>{visible(path)}</code>: </>}{visible(what)}</li>)}
                {fit.count > fit.first.length && <li>and {formatExact(fit.count - fit.first.length)} more</li>}
              </ul>
              {radio('save-lost', "keep them in the file's metadata: espalier convert restores them, and restore_carried() in C++; other readers see the tensors alone", unrepresentable === 'metadata', () => setUnrepresentable('metadata'))}
              {radio('save-lost', 'leave them out', unrepresentable === 'drop', () => setUnrepresentable('drop'))}
            </fieldset>
          ))}
        {source?.isOfNames && format === 'espalier' && <p class="quiet">{title} is a part of names with dots. The new file has the tree that is shown here, and no such names.</p>}
        {example !== undefined && (
          <p class="save-names">
            {isPathKept ? 'Names in the file have the whole path' : node.tensor ? 'The name in the file is the last key' : <>Names in the file begin at {title}</>}: <code>{visible(example) || '""'}</code>{!node.tensor && ' is the first'}.<br />
            <label><input type="checkbox" checked={isPathKept} disabled={isRunning} onChange={({ currentTarget }) => keepPath(currentTarget.checked)} /> Keep the whole path in names</label>
          </p>
        )}
        {hasMetadata && (
          <p><label><input type="checkbox" checked={isMetadataKept} disabled={isRunning} onChange={({ currentTarget }) => keepMetadata(currentTarget.checked)} /> Keep the file's metadata</label></p>
        )}
        <p class="save-name"><label>Name <input type="text" value={typed ?? suggestion} disabled={isRunning} autocomplete="off" spellcheck={false} onInput={({ currentTarget }) => setTyped(currentTarget.value)} /></label></p>
        {!canStream() && bytes > MEMORY_BYTES && (
          <p class="save-memory">This browser gathers the whole file in memory, up to {formatBytes(bytes)}, before it saves it. Chrome and Edge write it to the disk as it is made.</p>
        )}
        {isRunning && (task.progress ? <ByteProgress {...task.progress} label="Saved" /> : <p class="progress"><progress aria-label="Saved" /></p>)}
        <div role="status">
          {task.state === 'cancelled' && 'Cancelled. Nothing was saved.'}
          {task.state === 'done' && task.value && (
            <>Saved <code>{visible(task.value.name)}</code>: {formatBytes(task.value.bytes)} ({formatExact(task.value.bytes)} bytes).
              {task.value.dropped > 0 && ` ${counted(task.value.dropped, 'value')} left out.`}</>
          )}
        </div>
        {task.state === 'failed' && <p class="bad" role="alert">Nothing was saved: {visibleText(task.error ?? '')}</p>}
        <p class="toolbar">
          {isRunning
            ? <button type="button" onClick={task.cancel}>Cancel</button>
            : <button type="submit" class="main" disabled={!source || (format === 'safetensors' && typeof fit !== 'object')}>Save</button>}
          <button type="button" onClick={() => dialog.current!.close()}>{isRunning ? 'Cancel and close' : 'Close'}</button>
        </p>
      </form>
    </dialog>
  )
}
