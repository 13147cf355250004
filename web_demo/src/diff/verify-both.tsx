// Verifies both files of a comparison, so that equal hashes can be trusted.
import { useEffect, useRef, useState } from 'preact/hooks'
import type { OpenFile } from '../data/open-file'
import { ByteProgress } from '../ui/progress'
import { formatBytes } from '../ui/format'
import { visible } from '../ui/visible'
import { verifyItem } from '../verify/run-verify'

const INTERVAL = 100

/** A button that verifies, and the progress. @param onDone called when all that could be verified was */
export function VerifyBoth({ files, onDone }: { files: readonly OpenFile[]; onDone: () => void }) {
  const [progress, setProgress] = useState<{ readonly name: string; readonly loaded: number; readonly total: number }>()
  const [failure, setFailure] = useState('')
  const running = useRef<AbortController>()
  useEffect(() => () => running.current?.abort(), [])

  const start = async (): Promise<void> => {
    const stop = (running.current = new AbortController())
    setFailure('')
    try {
      for (const file of files) {
        const name = visible(file.name)
        setProgress({ name, loaded: 0, total: 0 })
        let drawn = 0
        await verifyItem(file, file.outline.tops[0]!, stop.signal, ({ loaded, total }) => {
          if (performance.now() - drawn < INTERVAL) return
          drawn = performance.now()
          setProgress({ name, loaded, total })
        })
      }
      onDone()
    } catch (error) {
      setFailure(stop.signal.aborted ? 'Verification cancelled.' : error instanceof Error ? error.message : String(error))
    } finally {
      setProgress(undefined)
    }
  }

  const bytes = files.reduce((sum, { checkpoint }) => sum + checkpoint.fileLength, 0)
  return (
    <div class="verify-both">
      {progress
        ? <>
            <ByteProgress key={progress.name} {...progress} label={`Verified of ${progress.name}`} />
            <button type="button" onClick={() => running.current?.abort()}>Cancel</button>
          </>
        : <button type="button" onClick={() => void start()}>Verify both</button>}
      {!progress && <span class="quiet"> reads {formatBytes(bytes)}</span>}
      <div role="status">{failure}</div>
    </div>
  )
}
