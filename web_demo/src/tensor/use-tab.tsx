// What to do with a tensor elsewhere: programs that read it, and a download.
import type { Tensor } from 'espalier'
import { formatBytes } from '../ui/format.js'
import { CopyButton } from './copy-button.js'
import { npyName, npyPieces, planNpy } from './npy.js'
import { canSave, saveFile } from './save-file.js'
import { snippetsFor } from './snippets.js'
import { TaskLine } from './task-line.js'
import { useTask } from './use-task.js'

/** @param source the checkpoint's file name, or URL */
export function UseTab({ tensor, source }: { tensor: Tensor; source: string }) {
  return (
    <>
      {!tensor.isPlaceholder && <Download tensor={tensor} />}
      {snippetsFor(source, tensor.path, !tensor.isPlaceholder).map((snippet) => (
        <section key={snippet.language} class="tensor-snippet" aria-label={snippet.language}>
          <header>
            <h2>{snippet.language}</h2>
            {'text' in snippet && <CopyButton text={snippet.text} what={`Copy ${snippet.language}`} />}
          </header>
          {'text' in snippet ? <pre tabIndex={0}><code>{snippet.text}</code></pre> : <p class="tensor-note">{snippet.refusal}</p>}
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
