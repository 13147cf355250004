// Shows the costs of viewing a file.
import { useEffect, useReducer } from 'preact/hooks'
import type { Checkpoint } from 'espalier'
import { counted, formatBytes } from './format'

/** Milliseconds between two updates. */
const PAUSE = 500

/** Bytes fetched out of the file's, requests and memory. */
export function Meter({ checkpoint }: { checkpoint: Checkpoint }) {
  const [, look] = useReducer((count: number) => count + 1, 0)
  useEffect(() => {
    const timer = setInterval(look, PAUSE)
    return () => clearInterval(timer)
  }, [])
  const { bytesFetched, requests, memoryBytes } = checkpoint.meter
  const { fileLength } = checkpoint
  return (
    <footer class="meter">
      <span>
        <meter min={0} max={Math.max(fileLength, 1)} value={Math.min(bytesFetched, fileLength)} aria-label="Fetched of the file" />{' '}
        {formatBytes(bytesFetched)} fetched, of a file of {formatBytes(fileLength)}
      </span>
      <span>{counted(requests, 'request')}</span>
      <span>{formatBytes(memoryBytes)} of memory</span>
      <span class="quiet">nothing is uploaded</span>
    </footer>
  )
}
