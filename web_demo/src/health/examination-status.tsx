// How far the examination of a file has come, and the buttons for it.
import { counted, formatBytes } from '../ui/format'
import { ByteProgress } from '../ui/progress'
import { visible } from '../ui/visible'
import type { FileExamination } from './examination'

/** Says what was read and what was not, and offers to read the rest. */
export function ExaminationStatus({ examination }: { examination: FileExamination }) {
  const { status, loaded, total, failure, result } = examination.state
  const beyond = result?.unexamined.filter(({ reason }) => reason === 'budget') ?? []
  const placeholders = result?.unexamined.filter(({ reason }) => reason === 'placeholder').length ?? 0
  return (
    <>
      {status === 'waiting' && (
        <p><button type="button" class="main" onClick={() => examination.start(false)}>Examine the tensors</button> reads and decodes at most {formatBytes(examination.budget)}.</p>
      )}
      {status === 'running' && (
        <div class="actions">
          <ByteProgress loaded={loaded} total={total} label="Examined" />
          <button type="button" onClick={() => examination.stop()}>Cancel</button>
        </div>
      )}
      {status === 'stopped' && (
        <p>
          {failure ? <span class="bad">{visible(failure)} </span> : 'Cancelled. '}
          <button type="button" onClick={() => examination.start(false)}>Examine again</button>
        </p>
      )}
      {beyond.length > 0 && (
        <p>
          <strong>Not read: {counted(beyond.length, 'tensor')}, {formatBytes(beyond.reduce((sum, { tensor }) => sum + Math.max(tensor.stored, tensor.byteLength), 0))}.</strong>{' '}
          <button type="button" onClick={() => examination.start(true)}>Examine all</button>
        </p>
      )}
      {placeholders > 0 && <p class="quiet">{counted(placeholders, 'placeholder')} without elements.</p>}
    </>
  )
}
