// Scalars, settings and metadata of a part of the tree, as values.
import type { Checkpoint, Node } from 'espalier'
import { checkpointNumber } from '../map/checkpoint-number.js'
import { keyText } from '../map/key-text.js'
import { Container, Label } from './container.js'
import './state.css'
import { Value } from './value.js'

const CONTAINERS = ['dict', 'list', 'tuple', 'set', 'record']

/** @param node a container or a scalar; a tensor has little to show here */
export function StatePane({ node, checkpoint }: { node: Node; checkpoint: Checkpoint }) {
  // A new pane for each node: unfolded values and totals belong to one node.
  return <Pane key={`${checkpointNumber(checkpoint)}/${node.id}`} node={node} checkpoint={checkpoint} />
}

function Pane({ node, checkpoint }: { node: Node; checkpoint: Checkpoint }) {
  const isRoot = node.id === checkpoint.root.id
  const isContainer = CONTAINERS.includes(node.kind)
  return (
    <section class="state-pane" aria-label="State">
      {isRoot && checkpoint.metadata.size > 0 && (
        <section aria-label="Metadata">
          <h2>Metadata</h2>
          <Container node={checkpoint.metadata} />
        </section>
      )}
      <section aria-label="Values">
        <h2>{isContainer ? 'Values' : 'Value'}</h2>
        {isContainer ? (
          <>
            <p class="state-note"><Label node={node} />{node.kind} of {node.size.toLocaleString('en')}</p>
            <Container node={node} />
          </>
        ) : (
          <dl class="state-list">
            <div class="state-row"><dt>{keyText(node)}</dt><dd><Label node={node} /><Value node={node} /></dd></div>
            <div class="state-row"><dt>kind</dt><dd>{node.kind}</dd></div>
          </dl>
        )}
      </section>
    </section>
  )
}
