// Facts about a tensor that need no read.
import type { Checkpoint, Tensor } from 'espalier'
import type { ComponentChildren } from 'preact'
import { useEffect } from 'preact/hooks'
import { formatBytes, formatExact, formatShape } from '../ui/format.js'
import { visibleText } from '../ui/visible.js'
import { CopyButton } from './copy-button.js'
import { findTies } from './ties.js'
import { useTask } from './use-task.js'

const TIES_SHOWN = 20

/** A list of facts. */
export function Facts({ tensor, checkpoint }: { tensor: Tensor; checkpoint: Checkpoint }) {
  const { axisNames, block, byteLength, elements, hash, path, shape, stored } = tensor
  const label = tensor.node.label
  // Copies the text as shown: a line break in a name would run the pasted text in a terminal.
  const shownPath = visibleText(path)
  return (
    <dl class="tensor-facts">
      <Fact name="Key path">
        <code class="tensor-path">{shownPath || '(the root)'}</code> <CopyButton text={shownPath} what="Copy key path" />
      </Fact>
      {tensor.isPlaceholder && (
        <Fact name="Placeholder">
          Only dtype and shape are in the file, no elements: they were left out when it was written.
        </Fact>
      )}
      {label !== undefined && <Fact name="Label"><code>{visibleText(label)}</code></Fact>}
      <Fact name="Dtype">
        {tensor.dtype}
        {block && `: ${visibleText(block.name)}, blocks of ${formatExact(block.elements)} elements in ${formatExact(block.bytes)} bytes`}
      </Fact>
      <Fact name="Shape">
        {formatShape(shape)}
        {axisNames && <span class="tensor-note"> ({axisNames.map((name) => (name === '' ? 'unnamed' : visibleText(name))).join(', ')})</span>}
      </Fact>
      <Fact name="Elements">{formatExact(elements)}</Fact>
      <Fact name="Size">{bytesText(byteLength)}</Fact>
      {!tensor.isPlaceholder && (
        <Fact name="In the file">
          {stored === byteLength ? 'the same, not compressed' : `${bytesText(stored)}, ${((100 * stored) / byteLength).toFixed(1)} % of its size`}
        </Fact>
      )}
      {hash !== undefined && (
        <Fact name="Hash">
          <code class="tensor-path">{hash}</code> <CopyButton text={hash} what="Copy hash" />
        </Fact>
      )}
      <Ties tensor={tensor} checkpoint={checkpoint} />
    </dl>
  )
}

function Fact({ name, children }: { name: string; children: ComponentChildren }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  )
}

function Ties({ tensor, checkpoint }: { tensor: Tensor; checkpoint: Checkpoint }) {
  const task = useTask<string[]>()
  useEffect(() => task.start((signal) => findTies(tensor, checkpoint, signal)), [])
  const paths = task.value ?? []
  if (paths.length === 0) return null
  return (
    <Fact name="Tied to">
      <ul class="tensor-ties">
        {paths.slice(0, TIES_SHOWN).map((path) => <li key={path}><code>{visibleText(path)}</code></li>)}
        {paths.length > TIES_SHOWN && <li>and {formatExact(paths.length - TIES_SHOWN)} more</li>}
      </ul>
    </Fact>
  )
}

function bytesText(bytes: number): string {
  return bytes < 1000 ? `${bytes} B` : `${formatBytes(bytes)} (${formatExact(bytes)} B)`
}
