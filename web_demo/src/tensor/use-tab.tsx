// Ways to use a tensor elsewhere: programs that read it, and a download.
import type { Tensor } from 'espalier'
import type { OpenFile } from '../data/open-file.js'
import { formatBytes } from '../ui/format.js'
import { CopyButton } from './copy-button.js'
import { npyName, npyPieces, planNpy } from './npy.js'
import { canSave, saveFile } from './save-file.js'
import { snippetsFor } from './snippets.js'
import { TaskLine } from './task-line.js'
import { useTask } from './use-task.js'

export function UseTab({ tensor, file }: { tensor: Tensor; file: OpenFile }) {
  return (
    <>
      {!tensor.isPlaceholder && <Download tensor={tensor} />}
      {snippetsFor(file, tensor.path, !tensor.isPlaceholder, file.checkpoint.isNested).map((snippet) => (
        <section key={snippet.title} class="tensor-snippet" aria-label={snippet.title}>
          <header>
            <h2>{snippet.title}</h2>
            {'text' in snippet && <CopyButton text={snippet.text} what={`Copy ${snippet.title}`} />}
          </header>
          {'text' in snippet && <pre tabIndex={0}><code>{snippet.text}</code></pre>}
          <p class="tensor-note">{'text' in snippet ? snippet.note : snippet.refusal}</p>
        </section>
      ))}
    </>
  )
}

function Download({ tensor }: { tensor: Tensor }) {
  const task = useTask<boolean>()
  const { fileBytes, remark } = planNpy(tensor)
  const name = npyName(tensor.path)
  return (
    <section class="tensor-download" aria-label="Download">
      {canSave(fileBytes) ? (
        <button
          type="button" disabled={task.state === 'running'}
          onClick={() => task.start((signal, onProgress) => saveFile(name, fileBytes, () => npyPieces(tensor, signal, onProgress)))}
        >
          Download {name} ({formatBytes(fileBytes)})
        </button>
      ) : (
        <p class="tensor-note">
          As .npy it takes {formatBytes(fileBytes)}, more than this browser can save from a page. A browser that lets pages write files
          (Chrome, Edge) can, and so can the programs below.
        </p>
      )}
      {remark && <p class="tensor-note">{remark}</p>}
      {task.state === 'done' && task.value && <p class="tensor-note" role="status">Saved.</p>}
      <TaskLine task={task} label="Reading" />
    </section>
  )
}
