// Checks the hashes of the whole file, or of the selection; of other formats, the checksums of the whole file.
import { useEffect, useRef, useState } from 'preact/hooks'
import type { OpenFile } from '../data/open-file'
import { counted, formatBytes, formatExact } from '../ui/format'
import { ByteProgress } from '../ui/progress'
import { visible } from '../ui/visible'
import { verifyItem, type Verified, type VerifyProgress } from './run-verify'

interface VerifyPaneProps {
  readonly file: OpenFile
  readonly selected: number
  onSelect(item: number): void
  /** Called when results change. */
  onHashes(): void
}

/** Limit of listed errors. */
const LISTED = 200

/** What an incomplete file lacks. A further file that is another one, or cannot be read, is as good as missing. */
function missingPart({ errors }: Verified): string {
  const files = errors.filter(({ code }) => code !== 'elements_missing')
  const areAbsent = files.every(({ code }) => code === 'file_missing')
  const tensors = errors.length - files.length
  const parts = [
    files.length > 0 && `${counted(files.length, 'file')} missing${areAbsent ? '' : ' or unusable'}`,
    tensors > 0 && `${counted(tensors, 'tensor')} whose elements are not read`,
  ]
  return parts.filter(Boolean).join(', ')
}

/** What is known to be right, and what is not known. Formats of others do not tell how long their entries in a missing file are. */
function checkedPart({ bytes, unchecked }: Verified): string {
  const parts = [bytes > 0 && `${formatBytes(bytes)} are right`, unchecked > 0 && `${formatBytes(unchecked)} of tensors were not checked`]
  return parts.filter(Boolean).join(', ') || 'No tensor was checked'
}

/** Starts, shows and stops a verification. */
export function VerifyPane({ file, selected, onSelect, onHashes }: VerifyPaneProps) {
  const { checkpoint, outline } = file
  const root = outline.tops[0]!
  const [isAll, setAll] = useState(true)
  const [progress, setProgress] = useState<VerifyProgress>()
  const [result, setResult] = useState<{ readonly of: string; readonly verified: Verified }>()
  const [failure, setFailure] = useState('')
  const running = useRef<AbortController>()
  useEffect(() => () => running.current?.abort(), [])

  const { hasHashes, hasChecksums } = checkpoint
  // Without them, parts that are missing or contradict each other are still found.
  const canCompare = hasHashes || hasChecksums

  const nameOf = (item: number): string => (item === root ? 'the whole file' : outline.node(item).path || 'metadata')
  const start = async (): Promise<void> => {
    const item = isAll ? root : selected
    const stop = (running.current = new AbortController())
    setResult(undefined)
    setFailure('')
    setProgress({ loaded: 0, total: 0, damaged: 0 })
    let drawn = 0
    try {
      const verified = await verifyItem(file, item, stop.signal, (now) => {
        // Chunks may come by the thousand in a second.
        if (performance.now() - drawn < 100) return
        drawn = performance.now()
        setProgress(now)
      })
      setResult({ of: nameOf(item), verified })
      onHashes()
    } catch (error) {
      setFailure(stop.signal.aborted ? 'Cancelled.' : error instanceof Error ? error.message : String(error))
    } finally {
      setProgress(undefined)
    }
  }

  return (
    <section class="verify">
      {!canCompare && <p>This file is {checkpoint.format}, which has no hashes, and it has no checksums. Convert it with <code>espalier convert</code> to have hashes.</p>}
      <fieldset disabled={progress !== undefined}>
        <legend>{hasHashes ? 'Check against the hashes' : hasChecksums ? 'Compare with the CRC-32s in the file' : 'Look for parts that are missing'}</legend>
        <label><input type="radio" name="verify-what" checked={isAll} onChange={() => setAll(true)} /> the whole file, {formatBytes(checkpoint.fileLength)}</label>
        {/* An entry may have the bytes of many tensors. */}
        {hasHashes && <label><input type="radio" name="verify-what" checked={!isAll} disabled={selected === root} onChange={() => setAll(false)} /> what is selected: <code>{visible(nameOf(selected))}</code></label>}
      </fieldset>
      <p class="actions">
        {progress
          ? <button type="button" onClick={() => running.current?.abort()}>Cancel</button>
          : <button type="button" class="main" onClick={() => void start()}>Verify</button>}
      </p>
      {progress && <ByteProgress {...progress} label="Verified" />}
      <div role="status">
        {progress && progress.damaged > 0 && <p class="bad">{formatExact(progress.damaged)} damaged so far</p>}
        {failure && <p>{visible(failure)}</p>}
        {result && (result.verified.ok && !canCompare
          ? <p>{visible(result.of)}: no part is missing. Damage to its tensors cannot be seen.</p>
          : result.verified.ok
          ? <p class="good">{visible(result.of)}: all is well. {howMuch(result.verified)}, {formatBytes(result.verified.bytes)} checked.</p>
          : result.verified.verdict === 'incomplete'
          ? <p class="bad">{visible(result.of)}: INCOMPLETE. {missingPart(result.verified)}. {checkedPart(result.verified)}.</p>
          : <p class="bad">{visible(result.of)}: DAMAGED. {counted(result.verified.errorCount, 'error')} in {howMuch(result.verified)}.</p>)}
        {result && canCompare && !hasHashes && result.verified.unchecked > 0 && <p>{formatBytes(result.verified.unchecked)} of tensors have no CRC-32 and were not checked.</p>}
      </div>
      {result && !result.verified.ok && (
        <ul class="errors">
          {result.verified.errors.slice(0, LISTED).map(({ message, offset, path, code }) => (
            <li>
              {path
                ? <button type="button" class="plain" onClick={() => {
                    const node = checkpoint.get(path)
                    if (node) onSelect(node.id)
                  }}><code>{visible(path)}</code></button>
                : <code>{code}</code>}
              {offset !== undefined && ` at byte ${formatExact(offset)}`}: {visible(message)}
            </li>
          ))}
          {result.verified.errorCount > LISTED && <li>and {formatExact(result.verified.errorCount - LISTED)} more</li>}
        </ul>
      )}
    </section>
  )
}

function howMuch({ chunks, checksums }: Verified): string {
  return checksums > 0 ? counted(checksums, 'CRC-32') : counted(chunks, 'chunk')
}
