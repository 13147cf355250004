// A scalar, or a small container, as text.
import type { Node } from 'espalier'
import { useState } from 'preact/hooks'
import { formatBytes } from '../ui/format.js'
import { visibleText } from '../ui/visible.js'
import { bytesText, inlineText } from './inline-text.js'
import { looksLikeJson, prettyJson } from './json-text.js'

/** Characters of a string, or bytes, shown at first, and at most. */
const CLIP = 240
const MOST = 100_000
const BYTES_CLIP = 64
const BYTES_MOST = 4096

/** The value of a node that fits in a line, or that can be unfolded. */
export function Value({ node }: { node: Node }) {
  if (node.kind === 'string') return <StringValue text={node.value as string} />
  if (node.kind === 'bytes') return <BytesValue bytes={node.value as Uint8Array} />
  return <code class={`state-value state-${node.kind}`}>{inlineText(node)}</code>
}

function StringValue({ text }: { text: string }) {
  const [form, setForm] = useState<'clipped' | 'whole' | 'json'>('clipped')
  const isLong = text.length > CLIP
  const canBeJson = text.length <= MOST && looksLikeJson(text)
  const json = form === 'json' ? prettyJson(text) : undefined
  return (
    <span class="state-string-value">
      {json !== undefined ? (
        <pre class="state-long" tabIndex={0}>{visibleText(json, '\n')}</pre>
      ) : form === 'clipped' || !isLong ? (
        <code class="state-value state-string">"{visibleText(text.slice(0, CLIP))}{isLong && '…'}"</code>
      ) : (
        <pre class="state-long" tabIndex={0}>{visibleText(text.slice(0, MOST), '\n\t')}{text.length > MOST && '…'}</pre>
      )}
      {form === 'json' && json === undefined && <span class="state-note"> It is not valid JSON.</span>}
      {isLong && (
        <button type="button" onClick={() => setForm(form === 'clipped' ? 'whole' : 'clipped')}>
          {form === 'clipped' ? `Show all ${text.length.toLocaleString('en')} characters` : 'Show less'}
        </button>
      )}
      {canBeJson && (
        <button type="button" aria-pressed={form === 'json'} onClick={() => setForm(form === 'json' ? 'clipped' : 'json')}>Format JSON</button>
      )}
    </span>
  )
}

function BytesValue({ bytes }: { bytes: Uint8Array }) {
  const [isOpen, setOpen] = useState(false)
  return (
    <span>
      <span class="state-note">{formatBytes(bytes.length)}</span> <code class="state-value">{bytesText(bytes, isOpen ? BYTES_MOST : BYTES_CLIP)}</code>
      {bytes.length > BYTES_CLIP && (
        <button type="button" onClick={() => setOpen(!isOpen)}>{isOpen ? 'Show less' : `Show ${bytes.length > BYTES_MOST ? `the first ${BYTES_MOST}` : 'all'}`}</button>
      )}
    </span>
  )
}
