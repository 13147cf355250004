// The further files that a checkpoint has bytes in, and a way to give those that are missing.
import { useRef, useState } from 'preact/hooks'
import type { FurtherFile } from 'espalier'
import type { OpenFile } from '../data/open-file'
import { formatExact } from '../ui/format'
import { visible } from '../ui/visible'

/** Files that are shown at first, and that are added each time. */
const FIRST = 8
const MORE = 100

/** The table of files; those that cannot be read come first. */
export function FurtherFiles({ file, onParts }: { readonly file: OpenFile; onParts(parts: readonly File[]): void }) {
  const picker = useRef<HTMLInputElement>(null)
  const [most, setMost] = useState(FIRST)
  const { furtherFiles } = file.checkpoint
  const lacking = furtherFiles.filter(({ problem }) => problem !== undefined)
  const shown = [...lacking, ...furtherFiles.filter(({ problem }) => problem === undefined)]
  const left = shown.length - most
  const isLocal = file.address === undefined
  const isBelow = lacking.some(({ name }) => name.includes('/'))
  return (
    <section class="further-files">
      <table class="totals">
        <caption>{furtherFiles.length === 1 ? 'Another file' : `${formatExact(furtherFiles.length)} other files`} with tensors of this one</caption>
        <thead><tr><th scope="col">file</th><th scope="col">state</th></tr></thead>
        <tbody>{shown.slice(0, most).map(({ name, problem }) => <tr key={name}><th scope="row">{visible(name)}</th><td class={problem ? 'bad' : ''}>{stateOf(problem)}</td></tr>)}</tbody>
      </table>
      {left > 0 && <button type="button" onClick={() => setMost(most + MORE)}>Show more ({formatExact(left)} left)</button>}
      {lacking.length > 0 && (isBelow
        ? <p>{lacking.length === 1 ? 'It belongs' : 'They belong'} in {isLocal ? 'the folder of the checkpoint: open that folder, with all that is in it.' : 'folders below the address of this file.'}</p>
        : isLocal
        ? <p>
            Drop {lacking.length === 1 ? 'the file' : 'the files'} on the page, or{' '}
            <button type="button" onClick={() => picker.current!.click()}>choose {lacking.length === 1 ? 'it' : 'them'}</button>
            <input ref={picker} type="file" multiple hidden aria-label="Missing files" onChange={({ currentTarget }) => {
              const parts = [...(currentTarget.files ?? [])]
              if (parts.length > 0) onParts(parts)
              currentTarget.value = ''
            }} />
          </p>
        : <p>{lacking.length === 1 ? 'It must be' : 'They must be'} beside the address of this file.</p>)}
    </section>
  )
}

function stateOf(problem: FurtherFile['problem']): string {
  if (problem === undefined) return 'here'
  if (problem.code === 'file_missing') return 'missing'
  return problem.code === 'base_mismatch' ? 'another file of this name' : problem.code
}
