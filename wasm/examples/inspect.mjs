// Prints the tree of a checkpoint: node examples/inspect.mjs FILE-or-URL [PATTERN]
import { open as openFile } from 'node:fs/promises';
import { open } from 'espalier';

const [where, pattern = '**'] = process.argv.slice(2);
if (!where) {
  console.error('usage: node inspect.mjs FILE-or-URL [PATTERN]');
  process.exit(2);
}

const checkpoint = await open(/^https?:/.test(where) ? where : await openFile(where));
try {
  for (const node of checkpoint.find(pattern)) {
    const { tensor } = node;
    const what = tensor ? `${tensor.dtype} [${tensor.shape.join(', ')}]  ${tensor.byteLength} B` : describe(node);
    console.log(`${node.path || '(root)'}: ${what}`);
  }
  const { requests, bytesFetched } = checkpoint.meter;
  console.log(`${checkpoint.tensorCount} tensors; ${requests} requests, ${bytesFetched} of ${checkpoint.fileLength} bytes read`);
} finally {
  await checkpoint.close();
}

function describe({ kind, value, size, label }) {
  // Text of files is not trusted: JSON escapes control characters.
  const shown = typeof value === 'string' ? JSON.stringify(value) : value === undefined ? `${size}` : String(value);
  return `${kind} ${shown}${label === undefined ? '' : ` (${JSON.stringify(label)})`}`;
}
