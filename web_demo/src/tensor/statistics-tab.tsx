// Shows statistics, the histogram, and the positions of the first NaN and infinity.
import type { Tensor } from 'espalier'
import { useEffect, useMemo, useState } from 'preact/hooks'
import { isLocal, type OpenFile } from '../data/open-file.js'
import { formatBytes, formatExact } from '../ui/format.js'
import { FirstSpecials } from './first-specials.js'
import { HistogramChart, type Overlay } from './histogram-chart.js'
import { OverlayPicker, type Other } from './overlay-picker.js'
import { share } from './share-text.js'
import { FurtherNumbers, StatisticsNumbers } from './statistics-numbers.js'
import { exactStatistics, sampledStatistics, type Shown } from './statistics.js'
import { TaskLine } from './task-line.js'
import { useTask } from './use-task.js'

/** Tensors of at most this many bytes are read whole without being asked for. */
const LOCAL_BYTES = 2 ** 31
const REMOTE_BYTES = 64 << 20

function runOf(tensor: Tensor, file: OpenFile): typeof exactStatistics {
  return tensor.byteLength <= (isLocal(file) ? LOCAL_BYTES : REMOTE_BYTES) ? exactStatistics : sampledStatistics
}

/** @param onJump shows the element at an index */
export function StatisticsTab({ tensor, file, files, onJump }: {
  tensor: Tensor
  file: OpenFile
  files: readonly OpenFile[]
  onJump: (index: number[]) => void
}) {
  const first = useTask<Shown>()
  const exact = useTask<Shown>()
  const run = runOf(tensor, file)
  useEffect(() => first.start((signal, onProgress) => run(tensor, signal, onProgress)), [])
  const shown = exact.value ?? first.value
  const isSample = shown?.sampled !== undefined
  return (
    <>
      <TaskLine task={first} label={run === exactStatistics ? 'Reading all elements' : 'Reading a sample'} />
      {shown?.sampled !== undefined && (
        <div class="tensor-sample" role="note">
          <strong>A sample:</strong> {formatExact(shown.sampled)} of {formatExact(tensor.elements)} elements ({share(shown.sampled / tensor.elements)}),
          in runs spread evenly. Rare values may be missing.
          {exact.state !== 'running' && (
            <button type="button" onClick={() => exact.start((signal, onProgress) => exactStatistics(tensor, signal, onProgress))}>
              Exact: read all {formatBytes(tensor.stored)}
            </button>
          )}
        </div>
      )}
      <TaskLine task={exact} label="Reading all elements" />
      {shown && <StatisticsNumbers shown={shown} tensor={tensor} />}
      {shown && <FirstSpecials shown={shown} tensor={tensor} isAutomatic={isLocal(file)} onJump={onJump} />}
      {shown && shown.stats.finite > 0 && shown.stats.min === shown.stats.max && (
        <p class="tensor-note">All finite elements {isSample && 'in the sample '}are equal.</p>
      )}
      {shown && shown.stats.finite > 0 && shown.stats.min !== shown.stats.max && <Chart shown={shown} tensor={tensor} file={file} files={files} />}
      {shown && shown.stats.finite > 0 && <FurtherNumbers shown={shown} tensor={tensor} />}
    </>
  )
}

/** The histogram, and what it is compared with. */
function Chart({ shown, tensor, file, files }: { shown: Shown; tensor: Tensor; file: OpenFile; files: readonly OpenFile[] }) {
  const task = useTask<Shown & { other: Other }>()
  const [other, setOther] = useState<Other>()
  const choose = (next: Other | undefined): void => {
    setOther(next)
    if (!next) return task.cancel()
    const run = runOf(next.tensor, next.file)
    task.start(async (signal, onProgress) => ({ ...(await run(next.tensor, signal, onProgress)), other: next }))
  }
  const found = other && task.value?.other === other ? task.value : undefined
  const overlay = useMemo<Overlay | undefined>(() => found && {
    name: `${found.other.name}${found.sampled === undefined ? '' : ' (a sample)'}`, histogram: found.stats.histogram,
  }, [found])
  return (
    <>
      <HistogramChart
        name={tensor.path} histogram={shown.stats.histogram} overlay={overlay} isSample={shown.sampled !== undefined}
        isInteger={/^(bool|[iu]\d)/.test(tensor.dtype)} isBool={tensor.dtype === 'bool'}
      />
      <OverlayPicker tensor={tensor} file={file} files={files} onOther={choose} />
      {other && <TaskLine task={task} label="Reading the other tensor" />}
      {found && found.stats.finite === 0 && <p class="tensor-note">The other tensor has no finite elements.</p>}
    </>
  )
}
