// What a container or a group of names holds, by type; of the whole file, what the file is.
import { useEffect, useState } from 'preact/hooks'
import type { Totals } from 'espalier'
import { dtypeTotals } from '../data/dtype-totals'
import type { OpenFile } from '../data/open-file'
import { runInTurns } from '../data/slices'
import { addUpByDType, type DTypeTotals } from '../data/totals'
import { formatBytes, formatExact } from '../ui/format'
import { visible } from '../ui/visible'

/** Totals of an item that is no tensor. */
export function Summary({ file, item }: { file: OpenFile; item: number }) {
  const { checkpoint, outline } = file
  const node = outline.node(item)
  const isWhole = item === outline.tops[0]
  const [byDType, setByDType] = useState<readonly DTypeTotals[]>()
  const [totals, setTotals] = useState<Totals>()
  useEffect(() => {
    const stop = new AbortController()
    const { signal } = stop
    setByDType(undefined)
    setTotals(outline.totals(item))
    // What is closed meanwhile ends the work, and the pane with it.
    const quiet = (): void => {}
    if (!node) runInTurns(outline.addUp(item), signal).then(setTotals, quiet)
    else if (isWhole) dtypeTotals(checkpoint).then((list) => !signal.aborted && setByDType(list), quiet)
    else if (node.size > 0) runInTurns(addUpByDType(node), signal).then(setByDType, quiet)
    return () => stop.abort()
  }, [checkpoint, item])

  return (
    <section class="summary">
      {!node && <h2 class="path">{visible(outline.path(item))}</h2>}
      {isWhole && (
        <dl class="facts">
          <dt>Format</dt><dd>{checkpoint.format}{checkpoint.hasHashes ? '' : ', without hashes'}</dd>
          <dt>File</dt><dd>{formatBytes(checkpoint.fileLength)} ({formatExact(checkpoint.fileLength)} bytes)</dd>
          <dt>Nodes</dt><dd>{formatExact(checkpoint.nodeCount)}</dd>
          <dt>Tensors</dt><dd>{formatExact(checkpoint.tensorCount)}</dd>
          {checkpoint.digest && <><dt>Digest</dt><dd><code>{checkpoint.digest}</code></dd></>}
        </dl>
      )}
      {byDType && byDType.length > 0 && <DTypeTable rows={byDType} />}
      {!byDType && totals && (
        <p>{formatExact(totals.tensors)} tensors, {formatExact(totals.elements)} parameters, {formatBytes(totals.bytes)}, stored in {formatBytes(totals.stored)}</p>
      )}
    </section>
  )
}

function DTypeTable({ rows }: { rows: readonly DTypeTotals[] }) {
  const sum = (field: keyof Totals): number => rows.reduce((total, row) => total + row[field], 0)
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
            <th scope="row">all</th><td>{formatExact(sum('tensors'))}</td><td>{formatExact(sum('elements'))}</td>
            <td>{formatBytes(sum('bytes'))}</td><td>{formatBytes(sum('stored'))}</td>
          </tr>
        </tfoot>
      )}
    </table>
  )
}
