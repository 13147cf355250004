// Prints the tree of a checkpoint: node examples/inspect.mjs FILE-or-URL [PATTERN]
import { open as openFile } from 'node:fs/promises'
import { open } from 'espalier'

const [where, pattern = '**'] = process.argv.slice(2)
if (!where) {
  console.error('usage: node inspect.mjs FILE-or-URL [PATTERN]')
  process.exit(2)
}

// An open file stays yours: close it after the checkpoint.
const file = /^https?:/.test(where) ? undefined : await openFile(where)
let checkpoint
try {
  checkpoint = await open(file ?? where)
  for (const node of checkpoint.find(pattern)) {
    const { tensor } = node
    const what = tensor ? `${tensor.dtype} [${tensor.shape.join(', ')}]  ${tensor.byteLength} B` : describe(node)
    console.log(`${printable(node.path) || '(root)'}: ${what}`)
  }
  const { requests, bytesFetched } = checkpoint.meter
  console.log(`${checkpoint.tensorCount} tensors; ${requests} requests, ${bytesFetched} of ${checkpoint.fileLength} bytes read`)
} finally {
  await checkpoint?.close()
  await file?.close()
}

function describe({ kind, value, size, label }) {
  const shown = typeof value === 'string' ? `"${printable(value)}"` : value === undefined ? `${size}` : String(value)
  return `${kind} ${shown}${label === undefined ? '' : ` (${printable(label)})`}`
}

// Text from files is untrusted: a terminal would obey its control characters.
function printable(text) {
  return text.replace(/[\p{C}\p{Zl}\p{Zp}]/gu, (character) => `\\u{${character.codePointAt(0).toString(16)}}`)
}
