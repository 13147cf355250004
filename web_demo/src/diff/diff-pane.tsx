// Compares the shown file with another open one.
import { useEffect, useRef, useState } from 'preact/hooks'
import type { Node } from 'espalier'
import type { OpenFile } from '../data/open-file'
import { formatExact, formatShape } from '../ui/format'
import { visible } from '../ui/visible'
import { DeltaResult } from './delta-result'
import { readDeltas, type Deltas } from './deltas'
import { findDifferences, type Change, type Difference, type Differences } from './differences'

interface DiffPaneProps {
  readonly file: OpenFile
  readonly files: readonly OpenFile[]
  /** Increments when hash results change. */
  readonly version: number
  onSelect(item: number): void
}

/** Differences listed at first, and added by each "more". */
const PAGE = 100

// In the order in which the summary counts them.
const WORDS = {
  only_in_a: 'removed', only_in_b: 'added', data: 'differs', dtype: 'other type', shape: 'other shape', kind: 'other kind',
  value: 'other value', label: 'other label', axis_names: 'other axis names', key_order: 'other order', tie: 'other ties',
  unknown: 'not compared', damaged: 'damaged',
} as const

/** Shows the differences; reads the elements of tensors on request. */
export function DiffPane({ file: shown, files, version, onSelect }: DiffPaneProps) {
  const others = files.filter((other) => other !== shown)
  const [number, setNumber] = useState<number>()
  const against = others.find((one) => one.number === number) ?? others.at(-1)
  // From the file opened first to the other, so that new nodes are called added.
  const isShownFirst = !against || shown.number < against.number
  const file = isShownFirst ? shown : against
  const other = isShownFirst ? against : shown
  const [comparison, setComparison] = useState<Differences>()
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
    const { signal } = stop
    findDifferences(file.checkpoint, other.checkpoint, [file.hashes.bad, other.hashes.bad], signal).then((found) => {
      if (!signal.aborted) setComparison(found)
    }, (error: unknown) => {
      if (!signal.aborted) setFailure(String(error))
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

  const readable = comparison?.listed.filter(isReadable) ?? []
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
      {!comparison && !failure && <p><progress aria-label="Comparing" /></p>}
      <div role="status">
        {comparison && <p>{summaryOf(comparison)}</p>}
        {failure && <p>{visible(failure)}</p>}
        {reading && <p>Reading {visible(reading)}</p>}
      </div>
      {reading
        ? <p><button type="button" onClick={() => running.current?.abort()}>Cancel</button></p>
        : unread.length > 1 && <p><button type="button" onClick={() => void read(unread)}>Compare the elements of all {formatExact(unread.length)}</button></p>}
      {comparison && comparison.listed.length > 0 && (
        <table class="differences">
          <thead><tr><th scope="col">key path</th><th scope="col">change</th><th scope="col">{visible(file.name)}</th><th scope="col">{visible(other.name)}</th></tr></thead>
          <tbody>
            {comparison.listed.slice(0, listed).map((difference) => {
              const { change, path, before, after } = difference
              const here = isShownFirst ? before : after
              const delta = deltas.get(difference)
              const canRead = isReadable(difference)
              return (
                <tr key={`${change} ${before?.id} ${after?.id}`} class={`change-${change}`}>
                  <th scope="row">{here ? <button type="button" class="plain" onClick={() => onSelect(here.id)}>{visible(path)}</button> : visible(path)}</th>
                  <td>{typeof delta === 'object' ? (delta.differing === 0 ? 'equal' : 'differs') : WORDS[change]}</td>
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
      {comparison && comparison.listed.length > listed && (
        <p><button type="button" onClick={() => setListed(listed + PAGE)}>Show more</button> of {formatExact(comparison.listed.length)}</p>
      )}
    </section>
  )
}

/** Whether reading the elements of both would show more. */
function isReadable({ change }: Difference): boolean {
  return change === 'data' || change === 'unknown'
}

function summaryOf({ counts, equalTensors }: Differences): string {
  const known = (Object.keys(WORDS) as Change[]).filter((change) => counts.has(change))
  const parts = known.map((change) => `${formatExact(counts.get(change)!)} ${WORDS[change]}`)
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
