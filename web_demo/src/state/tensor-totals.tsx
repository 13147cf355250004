// The tensors of a subtree in a table, by dtype.
import type { Node } from 'espalier'
import { useEffect } from 'preact/hooks'
import { useTask } from '../tensor/use-task.js'
import { formatBytes, formatExact } from '../ui/format.js'
import { totalsByDType, type TensorTotals as Totals } from './by-dtype.js'

/** Nothing if there are no tensors. */
export function TensorTotals({ node }: { node: Node }) {
  const task = useTask<Totals>()
  useEffect(() => task.start((signal) => totalsByDType(node, signal)), [])
  if (task.state === 'failed') return <p class="state-note" role="alert">{task.error}</p>
  if (!task.value) return <p class="state-note">Adding up tensors…</p>
  const { dtypes, ties, left } = task.value
  if (dtypes.length === 0) return null
  const all = dtypes.reduce((sum, { tensors, elements, bytes, stored }) => ({
    tensors: sum.tensors + tensors, elements: sum.elements + elements, bytes: sum.bytes + bytes, stored: sum.stored + stored,
  }), { tensors: 0, elements: 0, bytes: 0, stored: 0 })
  const placeholders = dtypes.reduce((sum, dtype) => sum + dtype.placeholders, 0)
  return (
    <section aria-label="Tensors">
      <h2>Tensors</h2>
      <div class="state-scroll">
        <table class="state-table state-numbers">
          <thead>
            <tr>{['Dtype', 'Tensors', 'Elements', 'Size', 'In the file'].map((name) => <th key={name} scope="col">{name}</th>)}</tr>
          </thead>
          <tbody>
            {dtypes.map((row) => <Row key={row.dtype} name={row.dtype} {...row} />)}
            {dtypes.length > 1 && <Row name="all" {...all} />}
          </tbody>
        </table>
      </div>
      <p class="state-note">
        {placeholders > 0 && `${formatExact(placeholders)} ${placeholders === 1 ? 'placeholder' : 'placeholders'} without elements. `}
        {ties > 0 && `Tied tensors count once: ${formatExact(ties)} more ${ties === 1 ? 'place names' : 'places name'} one of these. `}
        {left > 0 && `${formatExact(left)} more places were not looked at.`}
      </p>
    </section>
  )
}

function Row({ name, tensors, elements, bytes, stored }: { name: string; tensors: number; elements: number; bytes: number; stored: number }) {
  return (
    <tr>
      <th scope="row">{name}</th>
      <td>{formatExact(tensors)}</td>
      <td>{formatExact(elements)}</td>
      <td>{formatBytes(bytes)}</td>
      <td>{formatBytes(stored)}</td>
    </tr>
  )
}
