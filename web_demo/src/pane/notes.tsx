// What an open file lacks, and what may be wrong with it.
import { useMemo, useState } from 'preact/hooks'
import type { Note } from 'espalier'
import type { OpenFile } from '../data/open-file'
import { counted, formatExact } from '../ui/format'
import { visible } from '../ui/visible'
import { notedNode } from './noted-node'

/** Notes that are shown at first, and that are added each time. */
const FIRST = 5
const MORE = 100

interface NotesProps {
  readonly file: OpenFile
  onSelect(item: number): void
}

/** The notes on a file that has some. */
export function Notes({ file, onSelect }: NotesProps) {
  const { notes, noteCount } = file.checkpoint
  const [most, setMost] = useState(FIRST)
  const left = notes.length - most
  const unlisted = noteCount - notes.length
  return (
    <section class="notes" aria-labelledby="notes-title">
      <h2 id="notes-title">{counted(noteCount, 'note')} on this file</h2>
      <ul>
        {notes.slice(0, most).map((note, i) => <NoteItem key={i} file={file} note={note} onSelect={onSelect} />)}
      </ul>
      {left > 0
        ? <button type="button" onClick={() => setMost(most + MORE)}>Show more ({formatExact(left)} left)</button>
        : unlisted > 0 && <p class="quiet">{formatExact(unlisted)} more {unlisted === 1 ? 'is' : 'are'} not listed.</p>}
    </section>
  )
}

/** One note: its kind, the node that it is about, and its sentence. */
export function NoteItem({ file, note: { kind, path, message }, onSelect }: NotesProps & { readonly note: Note }) {
  const node = useMemo(() => notedNode(file.checkpoint, path), [file, path])
  const shown = <code>{visible(path)}</code>
  return (
    <li>
      <span class={kind === 'warning' ? 'doubt' : 'bad'}>{kind}</span>:{' '}
      {path && <>{node ? <button type="button" class="plain" onClick={() => onSelect(node.id)}>{shown}</button> : shown}: </>}
      {visible(message)}
    </li>
  )
}
