// Prints a line of JSON for each file, as the npm package sees it: its nodes, as `espalier ls --all --long --json`, without
// what the package does not tell. Tensors also have `sha256`, the hash of their elements' bytes. A float is
// { float: text }, because JSON in JavaScript has no 1.0 and no -0.0. Usage: list_files.mjs FILE...
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { open } from '../../wasm/dist/index.js'

for (const file of process.argv.slice(2)) {
  const checkpoint = await open(readFileSync(file))
  const { errors } = await checkpoint.verify()
  if (errors.length > 0) throw errors[0]
  const nodes = []
  for (const node of checkpoint.find()) nodes.push(await describe(node))
  console.log(JSON.stringify(nodes))
  await checkpoint.close()
}

async function describe(node) {
  const { path, kind, label, size, tensor } = node
  const named = { path, kind, ...(label !== undefined && { label }) }
  if (tensor) return { ...named, ...(await describeTensor(tensor)) }
  const value = describeValue(node)
  return value === undefined ? { ...named, children: size } : { ...named, value }
}

function describeValue({ kind, value }) {
  switch (kind) {
    case 'float64':
      return float(value)
    case 'complex128':
      return [float(value.re), float(value.im)]
    case 'bigint':
      return String(value)
    case 'bytes':
      return Buffer.from(value).toString('hex')
    default:
      return typeof value === 'bigint' ? String(value) : value
  }
}

function float(value) {
  if (!Number.isFinite(value)) return String(value)
  return { float: Object.is(value, -0) ? '-0.0' : String(value) }
}

async function describeTensor(tensor) {
  const { dtype, block, shape, axisNames, elements, byteLength, id, stored, hash = null, isPlaceholder } = tensor
  const described = {
    dtype, ...(block && { block }), shape, ...(axisNames && { axis_names: axisNames }), elements, bytes: byteLength,
    tensor: id, stored, hash,
  }
  if (isPlaceholder) return described
  const { data } = await tensor.read()
  return { ...described, sha256: createHash('sha256').update(data).digest('hex') }
}
