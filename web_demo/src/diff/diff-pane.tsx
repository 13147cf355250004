// Compares the file that is shown with another that is open.
import { useEffect, useRef, useState } from 'preact/hooks'
import type { Node } from 'espalier'
import type { OpenFile } from '../data/open-file'
import { runInTurns } from '../data/slices'
import { formatExact, formatShape } from '../ui/format'
import { visible } from '../ui/visible'
import { compareTrees, type Comparison, type Difference, type IsDamaged } from './compare-trees'
import { DeltaResult } from './delta-result'
import { readDeltas, type Deltas } from './deltas'

interface DiffPaneProps {
  readonly file: OpenFile
  readonly files: readonly OpenFile[]
  /** Counts up when the hashes are known of more. */
  readonly version: number
  onSelect(item: number): void
}

/** Differences that are listed at first, and with each "more". */
const PAGE = 100

const WORDS = {
  added: 'added', removed: 'removed', kind: 'other kind', dtype: 'other type', shape: 'other shape', axes: 'other axis names',
  order: 'other order', value: 'other value', data: 'differs', unknown: 'not compared', damaged: 'damaged',
} as const

/** Shows what differs; the elements of tensors are read when that is asked for. */
export function DiffPane({ file: shown, files, version, onSelect }: DiffPaneProps) {
  const others = files.filter((other) => other !== shown)
  const [number, setNumber] = useState<number>()
  const against = others.find((one) => one.number === number) ?? others.at(-1)
  // From the one that was opened first to the other, so that what is new is called added.
  const isShownFirst = !against || shown.number < against.number
  const file = isShownFirst ? shown : against
  const other = isShownFirst ? against : shown
  const [comparison, setComparison] = useState<Comparison>()
  const [done, setDone] = useState(0)
  const [failure, setFailure] = useState('')
  const [listed, setListed] = useState(PAGE)
  const [deltas, setDeltas] = useState<ReadonlyMap<Difference, Deltas | string>>(new Map())
  const [reading, setReading] = useState('')
  const running = useRef<AbortController>()

  useEffect(() => {
    setComparison(undefined)
    setDeltas(new Map())
    setListed(PAGE)
    setFailure('')
    if (!other) return
    const stop = new AbortController()
    runInTurns(compareTrees(file.checkpoint, other.checkpoint, [isDamaged(file), isDamaged(other)]), stop.signal, setDone).then(setComparison, (error: unknown) => {
      if (!stop.signal.aborted) setFailure(String(error))
    })
    return () => {
      stop.abort()
      running.current?.abort()
    }
  }, [file, other, version])

  if (!against || !other) return <p>Open a second file, by dropping it on the page or by its address, to compare it with {visible(file.name)}.</p>

  const read = async (differences: readonly Difference[]): Promise<void> => {
    const stop = (running.current = new AbortController())
    const { signal } = stop
    setFailure('')
    for (const [i, difference] of differences.entries()) {
      const { before, after, path } = difference
      const share = (part: number): string => `${formatExact(i + 1)} of ${formatExact(differences.length)}: ${path}, ${Math.round(part * 100)}%`
      setReading(share(0))
      const { elements } = before!.tensor!
      try {
        const found = await readDeltas(before!.tensor!, after!.tensor!, signal, (count) => setReading(share(count / elements)))
        setDeltas((map) => new Map(map).set(difference, found))
      } catch (error) {
        if (signal.aborted) break
        setDeltas((map) => new Map(map).set(difference, error instanceof Error ? error.message : String(error)))
      }
    }
    setReading('')
    if (signal.aborted) setFailure('Cancelled.')
  }

  const readable = comparison?.differences.filter(isReadable) ?? []
  const unread = readable.filter((difference) => !deltas.has(difference))
  return (
    <section class="diff">
      <p>
        <label>{visible(shown.name)} compared with{' '}
          <select value={against.number} onChange={({ currentTarget }) => setNumber(Number(currentTarget.value))}>
            {others.map((one) => <option value={one.number}>{visible(one.name)}</option>)}
          </select>
        </label>{' '}
        <span class="quiet">from {visible(file.name)}, which was opened first, to {visible(other.name)}</span>
      </p>
      {!comparison && !failure && <p><progress max={1} value={done} aria-label="Compared" /></p>}
      <div role="status">
        {comparison && <p>{summaryOf(comparison)}</p>}
        {failure && <p>{visible(failure)}</p>}
        {reading && <p>Reading {visible(reading)}</p>}
      </div>
      {reading
        ? <p><button type="button" onClick={() => running.current?.abort()}>Cancel</button></p>
        : unread.length > 1 && <p><button type="button" onClick={() => void read(unread)}>Compare the elements of all {formatExact(unread.length)}</button></p>}
      {comparison && comparison.differences.length > 0 && (
        <table class="differences">
          <thead><tr><th scope="col">key path</th><th scope="col">change</th><th scope="col">{visible(file.name)}</th><th scope="col">{visible(other.name)}</th></tr></thead>
          <tbody>
            {comparison.differences.slice(0, listed).map((difference) => {
              const { change, path, before, after } = difference
              const here = isShownFirst ? before : after
              const delta = deltas.get(difference)
              const canRead = isReadable(difference)
              return (
                <tr key={`${before?.id} ${after?.id}`} class={`change-${change}`}>
                  <th scope="row">{here ? <button type="button" class="plain" onClick={() => onSelect(here.id)}>{visible(path)}</button> : visible(path)}</th>
                  <td>{typeof delta === 'object' && change !== 'axes' ? (delta.differing === 0 ? 'equal' : 'differs') : WORDS[change]}</td>
                  {canRead ? (
                    <td colSpan={2}>
                      {typeof delta === 'string' ? <span class="bad">{visible(delta)}</span>
                        : delta ? <DeltaResult deltas={delta} />
                        : <button type="button" disabled={reading !== ''} aria-label={`Compare the elements of ${visible(path)}`} onClick={() => void read([difference])}>Compare</button>}
                    </td>
                  ) : <><td>{before && inShort(before)}</td><td>{after && inShort(after)}</td></>}
                </tr>
              )
            })}
          </tbody>
        </table>
      )}
      {comparison && comparison.differences.length > listed && (
        <p><button type="button" onClick={() => setListed(listed + PAGE)}>Show more</button> of {formatExact(comparison.differences.length)}</p>
      )}
    </section>
  )
}

/** Tells of a file what verifying it has found. */
function isDamaged({ hashes }: OpenFile): IsDamaged {
  return ({ id }) => hashes.of(id) === 'bad'
}

/** Whether reading the elements of both tells more. */
function isReadable({ change, before }: Difference): boolean {
  return change === 'data' || change === 'unknown' || (change === 'axes' && !before!.tensor!.isPlaceholder)
}

function summaryOf({ counts, equalTensors }: Comparison): string {
  const parts = [...counts].map(([change, count]) => `${formatExact(count)} ${WORDS[change]}`)
  const equal = `${formatExact(equalTensors)} ${equalTensors === 1 ? 'tensor' : 'tensors'} equal`
  return parts.length === 0 ? `No differences: ${equal}.` : `${parts.join(', ')}; ${equal}.`
}

/** A node in a few words. */
function inShort(node: Node): string {
  const { tensor } = node
  if (tensor) return visible([tensor.dtype, formatShape(tensor.shape), ...(tensor.axisNames ?? [])].join(' '))
  const { value, kind, label } = node
  const what = label === undefined ? kind : `${kind} ${label}`
  if (value === undefined) return visible(`${what} (${node.size})`)
  if (value instanceof Uint8Array) return `${value.length} bytes`
  if (typeof value === 'object' && value !== null) return `${value.re} + ${value.im}i`
  return visible(typeof value === 'string' ? JSON.stringify(value.slice(0, 100)) : Object.is(value, -0) ? '-0' : String(value))
}
