// A whole checkpoint as plain data, in the words of the independent reader, and with all that its tensors hold.

/** @param ckpt an open checkpoint */
export async function describe(ckpt) {
  const tensors = []
  for (const tensor of ckpt.tensors()) tensors[tensor.id] ??= await describeTensor(tensor)
  const { ok, chunks, errorCount } = await ckpt.verify()
  const { digest, fileLength } = ckpt
  return {
    digest, fileLength, tree: describeNode(ckpt.root), metadata: describeNode(ckpt.metadata), tensors,
    verified: { ok, chunks, errorCount },
  }
}

function describeNode(node) {
  const { kind, label } = node
  const named = label === undefined ? { kind } : { kind, label }
  if (['dict', 'record', 'list', 'tuple', 'set'].includes(kind)) {
    return { ...named, items: Array.from(node.children, (child) => {
      const described = describeNode(child)
      if (kind !== 'dict' && kind !== 'record') return described
      return [typeof child.key === 'string' ? { text: child.key } : { int: String(child.key) }, described]
    }) }
  }
  return { ...named, ...describeValue(node) }
}

function describeValue({ kind, value, tensor }) {
  switch (kind) {
    case 'tensor':
    case 'placeholder':
      return { tensor: tensor.id }
    case 'null':
      return {}
    case 'float64':
      return { bits: hex(Float64Array.of(value)) }
    case 'complex128':
      return { bits: [hex(Float64Array.of(value.re)), hex(Float64Array.of(value.im))] }
    case 'bytes':
      return { hex: hex(value) }
    case 'int64':
    case 'bigint':
      return { value: String(value) }
    default:
      return { value }
  }
}

async function describeTensor(tensor) {
  const { dtype, shape, axisNames, block, isPlaceholder, byteLength, hash } = tensor
  const described = { dtype, shape: [...shape], axisNames: axisNames ?? null, block: block ?? null, isPlaceholder, byteLength }
  if (isPlaceholder) return described
  const read = await tensor.read()
  const floats = dtype === 'opaque' ? null : await sha256(read.toFloat32())
  return { ...described, hash, first: hex(read.data, 64), sha256: await sha256(read.data), floats }
}

/** The first bytes of an array, or all of them, as hex digits. */
function hex(array, length = array.byteLength) {
  const bytes = new Uint8Array(array.buffer, array.byteOffset, Math.min(length, array.byteLength))
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('')
}

/** The SHA-256 of an array's bytes in hex. */
export async function sha256(array) {
  return hex(new Uint8Array(await crypto.subtle.digest('SHA-256', array)))
}
