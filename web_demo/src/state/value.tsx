// A scalar, or a small container, as text.
import type { Node } from 'espalier'
import { useMemo, useState } from 'preact/hooks'
import { formatBytes } from '../ui/format.js'
import { visibleText } from '../ui/visible.js'
import { bytesText, inlineText } from './inline-text.js'
import { looksLikeJson, prettyJson } from './json-text.js'

/** Characters of a string, or bytes, shown at first, and at most. */
const CLIP = 240
const MOST = 100_000
/** Bytes of a string that are read: a character has at most 4. */
const MOST_READ = 4 * MOST + 4
const BYTES_CLIP = 64
const BYTES_MOST = 4096

/** The value of a node that fits in a line, or that can be unfolded. */
export function Value({ node }: { node: Node }) {
  if (node.kind === 'string') return <StringValue node={node} />
  if (node.kind === 'bytes') return <BytesValue node={node} />
  return <code class={`state-value state-${node.kind}`}>{inlineText(node)}</code>
}

function StringValue({ node }: { node: Node }) {
  const { text, bytes, isWhole } = useMemo(() => {
    const { value, bytes } = node.valueHead(MOST_READ)
    const text = value as string
    return { text, bytes, isWhole: bytes <= MOST_READ && text.length <= MOST }
  }, [node])
  const [form, setForm] = useState<'clipped' | 'whole' | 'json'>('clipped')
  const isLong = text.length > CLIP
  const canBeJson = isWhole && looksLikeJson(text)
  const json = form === 'json' ? prettyJson(text) : undefined
  return (
    <span class="state-string-value">
      {json !== undefined ? (
        <pre class="state-long" tabIndex={0}>{visibleText(json, '\n')}</pre>
      ) : form === 'clipped' || !isLong ? (
        <code class="state-value state-string">"{visibleText(text.slice(0, CLIP))}{isLong && '…'}"</code>
      ) : (
        <pre class="state-long" tabIndex={0}>{visibleText(text.slice(0, MOST), '\n\t')}{!isWhole && '…'}</pre>
      )}
      {form === 'json' && json === undefined && <span class="state-note"> It is not valid JSON.</span>}
      {isLong && (
        <button type="button" onClick={() => setForm(form === 'clipped' ? 'whole' : 'clipped')}>
          {form !== 'clipped' ? 'Show less' : isWhole ? `Show all ${text.length.toLocaleString('en')} characters` : `Show the first ${MOST.toLocaleString('en')} characters, of ${formatBytes(bytes)}`}
        </button>
      )}
      {canBeJson && (
        <button type="button" aria-pressed={form === 'json'} onClick={() => setForm(form === 'json' ? 'clipped' : 'json')}>Format JSON</button>
      )}
    </span>
  )
}

function BytesValue({ node }: { node: Node }) {
  const [isOpen, setOpen] = useState(false)
  const { value, bytes } = node.valueHead(isOpen ? BYTES_MOST : BYTES_CLIP)
  return (
    <span>
      <span class="state-note">{formatBytes(bytes)}</span> <code class="state-value">{bytesText(value as Uint8Array, bytes)}</code>
      {bytes > BYTES_CLIP && (
        <button type="button" onClick={() => setOpen(!isOpen)}>{isOpen ? 'Show less' : `Show ${bytes > BYTES_MOST ? `the first ${BYTES_MOST}` : 'all'}`}</button>
      )}
    </span>
  )
}
