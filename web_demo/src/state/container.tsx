// Shows the values in a container and its subcontainers.
import type { Node } from 'espalier'
import { useState } from 'preact/hooks'
import { keyText } from '../map/key-text.js'
import { visibleText } from '../ui/visible.js'
import { columnsOf } from './columns.js'
import { inlineText, isInline } from './inline-text.js'
import { Value } from './value.js'

/** Children shown at first, and added each time. */
const FIRST = 60
const MORE = 200
/** Containers with at most this many children start expanded, down to this depth. */
const SMALL = 16
const OPEN_DEPTH = 2

/** The children of a container. @param depth levels above it */
export function Container({ node, depth = 0 }: { node: Node; depth?: number }) {
  const [most, setMost] = useState(FIRST)
  const columns = columnsOf(node)
  if (columns) return <ColumnTable {...columns} />
  const rows: Node[] = []
  let tensors = 0
  let seen = 0
  // Tensors have their own pane. Out of a million, only as many are visited as rows are needed.
  for (const child of node.children) {
    if (rows.length >= most || seen >= most * 10) break
    seen++
    if (child.tensor) tensors++
    else rows.push(child)
  }
  const left = node.size - seen
  return (
    <>
      {rows.length > 0 && (
        <dl class="state-list">
          {rows.map((child) => {
            const Row = isInline(child) ? ScalarRow : hasOnlyTensors(child) ? TensorsRow : NestedRow
            return <Row key={child.id} node={child} depth={depth} />
          })}
        </dl>
      )}
      {tensors > 0 && <p class="state-note">{tensors.toLocaleString('en')} {tensors === 1 ? 'tensor' : 'tensors'}</p>}
      {node.size === 0 && <p class="state-note">Empty.</p>}
      {left > 0 && (
        <button type="button" onClick={() => setMost(most + MORE)}>Show more ({left.toLocaleString('en')} left)</button>
      )}
    </>
  )
}

interface RowProps {
  readonly node: Node
  readonly depth: number
}

function ScalarRow({ node }: RowProps) {
  return (
    <div class="state-row">
      <dt>{keyText(node)}</dt>
      <dd>
        <Label node={node} /><Value node={node} />
      </dd>
    </div>
  )
}

/** Containers with more children are not searched for values. */
const FEW = 64

/** Whether there is nothing to show of a container but how many tensors it has. */
function hasOnlyTensors(node: Node): boolean {
  if (node.size === 0 || node.size > FEW) return false
  for (const child of node.children) if (!child.tensor) return false
  return true
}

function TensorsRow({ node }: RowProps) {
  return (
    <div class="state-row">
      <dt>{keyText(node)}</dt>
      <dd class="state-note"><Label node={node} />{node.kind} of {node.size === 1 ? '1 tensor' : `${node.size} tensors`}</dd>
    </div>
  )
}

function NestedRow({ node, depth }: RowProps) {
  const [isOpen, setOpen] = useState(depth < OPEN_DEPTH && node.size <= SMALL)
  return (
    <div class="state-nested">
      <dt>
        <button type="button" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
          <span aria-hidden="true">{isOpen ? '▾' : '▸'}</span> {keyText(node)}
        </button>{' '}
        <span class="state-note"><Label node={node} />{node.kind}, {node.size.toLocaleString('en')} {node.size === 1 ? 'child' : 'children'}</span>
      </dt>
      <dd>{isOpen && <Container node={node} depth={depth + 1} />}</dd>
    </div>
  )
}

/** The label: the value's original type. */
export function Label({ node }: { node: Node }) {
  const { label } = node
  return label === undefined ? null : <span class="state-label">{label === '' ? '(empty label)' : visibleText(label)} </span>
}

function ColumnTable({ dicts, rows, total }: NonNullable<ReturnType<typeof columnsOf>>) {
  return (
    <div class="state-scroll" tabIndex={0} role="region" aria-label="Side by side">
      <table class="state-table">
        <thead>
          <tr>
            <th scope="col"><span class="state-note">key</span></th>
            {dicts.map((dict) => <th key={dict.id} scope="col">{keyText(dict)}</th>)}
          </tr>
        </thead>
        <tbody>
          {rows.map(({ key, cells }) => (
            <tr key={key.id}>
              <th scope="row">{keyText(key)}</th>
              {cells.map((cell, i) => (
                <td key={i}>{cell ? <><Label node={cell} /><code class={`state-value state-${cell.kind}`}>{inlineText(cell)}</code></> : <span class="state-note">none</span>}</td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
      {total > dicts.length && <p class="state-note">and {(total - dicts.length).toLocaleString('en')} more</p>}
    </div>
  )
}
