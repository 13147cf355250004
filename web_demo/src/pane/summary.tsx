// Totals of a container by dtype; for the root, facts about the file.
import { useEffect, useMemo, useState } from 'preact/hooks'
import type { DTypeTotals, Node, Totals } from 'espalier'
import type { OpenFile } from '../data/open-file'
import { runInTurns, type Work } from '../data/slices'
import { LARGE } from '../tree/outline'
import { formatBytes, formatExact } from '../ui/format'

/** Totals of an item that is not a tensor. */
export function Summary({ file, item }: { file: OpenFile; item: number }) {
  const { checkpoint, outline } = file
  const node = outline.node(item)
  const isWhole = item === outline.tops[0]
  const byDType = useMemo(() => [...outline.totalsByDType(item)].sort((a, b) => b.bytes - a.bytes), [checkpoint, item])
  const [ties, setTies] = useState(0)
  useEffect(() => {
    const stop = new AbortController()
    const tensors = sumOf(byDType, 'tensors')
    setTies(0)
    runInTurns(countPlaces(node, tensors), stop.signal).then((places) => setTies(places - tensors), () => {})
    return () => stop.abort()
  }, [byDType])

  return (
    <section class="summary">
      {isWhole && (
        <dl class="facts">
          <dt>Format</dt><dd>{checkpoint.format}{checkpoint.hasHashes ? '' : ', without hashes'}</dd>
          <dt>File</dt><dd>{formatBytes(checkpoint.fileLength)} ({formatExact(checkpoint.fileLength)} bytes)</dd>
          <dt>Nodes</dt><dd>{formatExact(checkpoint.nodeCount)}</dd>
          <dt>Tensors</dt><dd>{formatExact(checkpoint.tensorCount)}</dd>
          {checkpoint.digest && <><dt>Digest</dt><dd><code>{checkpoint.digest}</code></dd></>}
        </dl>
      )}
      {byDType.length > 0 && <DTypeTable rows={byDType} />}
      {ties > 0 && <p class="quiet">Tied tensors count once: {formatExact(ties)} more {ties === 1 ? 'place names' : 'places name'} one of these.</p>}
    </section>
  )
}

/** How many places below a node have a tensor, if about `tensors` have one: of many, a piece at a time. */
function* countPlaces(node: Node, tensors: number): Work<number> {
  if (tensors <= LARGE) return node.tensors().length
  let places = 0
  for (const child of node.children) {
    if (child.tensor) places++
    else if (child.size > 0) places += yield* countPlaces(child, child.totals.tensors)
    yield 0
  }
  return places
}

function sumOf(rows: readonly DTypeTotals[], field: keyof Totals): number {
  return rows.reduce((total, row) => total + row[field], 0)
}

function DTypeTable({ rows }: { rows: readonly DTypeTotals[] }) {
  return (
    <table class="totals">
      <caption>By type</caption>
      <thead><tr><th scope="col">type</th><th scope="col">tensors</th><th scope="col">parameters</th><th scope="col">bytes</th><th scope="col">stored</th></tr></thead>
      <tbody>
        {rows.map((row) => (
          <tr>
            <th scope="row">{row.dtype}</th><td>{formatExact(row.tensors)}</td><td>{formatExact(row.elements)}</td>
            <td>{formatBytes(row.bytes)}</td><td>{formatBytes(row.stored)}</td>
          </tr>
        ))}
      </tbody>
      {rows.length > 1 && (
        <tfoot>
          <tr>
            <th scope="row">all</th><td>{formatExact(sumOf(rows, 'tensors'))}</td><td>{formatExact(sumOf(rows, 'elements'))}</td>
            <td>{formatBytes(sumOf(rows, 'bytes'))}</td><td>{formatBytes(sumOf(rows, 'stored'))}</td>
          </tr>
        </tfoot>
      )}
    </table>
  )
}
