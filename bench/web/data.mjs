// Makes the files for the other programs: `data.mjs KIND FILE ...`. Contents are synthetic, from fixed seeds.
//
//   arrays FOLDER COUNT ELEMENTS   the same f32 arrays as .espalier, .safetensors, .parquet and .h5
//   normal FILE DTYPE BYTES        a .safetensors file of normally distributed numbers, bf16 or f32
//   matrix FILE ROWS COLUMNS       an .espalier file with one f32 matrix
//   header FILE ESPALIER           the safetensors header that the tensors of an .espalier file would have
//   sparse FILE BYTES              an .espalier file of that many bytes, nearly all of them holes
import { closeSync, ftruncateSync, openSync, readFileSync, writeFileSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import h5wasm from 'h5wasm'
import { parquetWriteBuffer } from 'hyparquet-writer'
import { open, tensor, write, writeTo } from '../../wasm/dist/index.js'

const [kind, path, ...rest] = process.argv.slice(2)
const ZEROS = Buffer.alloc(1 << 20)
await { arrays, normal, matrix, header, sparse }[kind](path, ...rest)
console.log(JSON.stringify({ kind }))

/** Normally distributed numbers with deviation 0.02, like weights. */
function gaussian(seed, count) {
  let state = seed >>> 0
  const uniform = () => {
    state = (state + 0x9e3779b9) >>> 0
    let z = state
    z = Math.imul(z ^ (z >>> 16), 0x21f0aaad)
    z = Math.imul(z ^ (z >>> 15), 0x735a2d97)
    return (((z ^ (z >>> 15)) >>> 0) + 1) / 4294967297
  }
  const numbers = new Float32Array(count)
  for (let i = 0; i < count; i += 2) {
    const radius = 0.02 * Math.sqrt(-2 * Math.log(uniform()))
    const angle = 2 * Math.PI * uniform()
    numbers[i] = radius * Math.cos(angle)
    if (i + 1 < count) numbers[i + 1] = radius * Math.sin(angle)
  }
  return numbers
}

/** Repeating the same bytes would be too easy; a few MiB of rotated numbers are not. */
function filled(count, piece = 1 << 21) {
  const numbers = new Float32Array(count)
  const some = gaussian(1, Math.min(count, piece))
  for (let at = 0, turn = 0; at < count; at += some.length, turn += 4099) {
    const length = Math.min(some.length, count - at)
    const from = turn % some.length
    const first = some.subarray(from, Math.min(from + length, some.length))
    numbers.set(first, at)
    numbers.set(some.subarray(0, length - first.length), at + first.length)
  }
  return numbers
}

function bytesOf(view) {
  return new Uint8Array(view.buffer, view.byteOffset, view.byteLength)
}

/** A safetensors file; tensors are [name, dtype, shape, bytes]. */
function writeSafetensors(file, tensors) {
  let at = 0
  const entries = tensors.map(([name, dtype, shape, bytes]) => {
    const entry = { dtype, shape, data_offsets: [at, at + bytes.length] }
    at += bytes.length
    return [name, entry]
  })
  let text = JSON.stringify(Object.fromEntries(entries))
  text += ' '.repeat((8 - (Buffer.byteLength(text) % 8)) % 8)
  const to = openSync(file, 'w')
  const length = Buffer.alloc(8)
  length.writeBigUInt64LE(BigInt(Buffer.byteLength(text)))
  writeSync(to, length)
  writeSync(to, text)
  for (const [, , , bytes] of tensors) writeSync(to, bytes)
  closeSync(to)
}

async function arrays(folder, count, elements) {
  const names = Array.from({ length: Number(count) }, (_, i) => `a${i}`)
  const data = names.map((_, i) => gaussian(i + 1, Number(elements)))
  writeFileSync(join(folder, 'arrays.espalier'), await write(Object.fromEntries(names.map((name, i) => [name, data[i]]))))
  writeSafetensors(join(folder, 'arrays.safetensors'), names.map((name, i) => [name, 'F32', [data[i].length], bytesOf(data[i])]))
  // Each with its own means, and neither compressed: a column for each array in one row group, a dataset for each.
  const columnData = names.map((name, i) => ({ name, data: data[i], type: 'FLOAT', nullable: false, encoding: 'PLAIN' }))
  const parquet = parquetWriteBuffer({ columnData, codec: 'UNCOMPRESSED', rowGroupSize: Number(elements) })
  writeFileSync(join(folder, 'arrays.parquet'), new Uint8Array(parquet))
  const { FS } = await h5wasm.ready
  const file = new h5wasm.File('arrays.h5', 'w')
  names.forEach((name, i) => file.create_dataset({ name, data: data[i], shape: [data[i].length], dtype: '<f4' }))
  file.close()
  writeFileSync(join(folder, 'arrays.h5'), FS.readFile('arrays.h5'))
}

async function normal(file, dtype, bytes) {
  const width = dtype === 'bf16' ? 2 : 4
  const count = Number(bytes) / width / 4
  const numbers = filled(count * 4)
  let data = numbers
  if (dtype === 'bf16') {
    const bits = new Uint32Array(numbers.buffer)
    data = Uint16Array.from(bits, (x) => (x + 0x7fff + ((x >>> 16) & 1)) >>> 16)
  }
  const tensors = Array.from({ length: 4 }, (_, i) => {
    const part = data.subarray(i * count, (i + 1) * count)
    return [`w${i}`, dtype.toUpperCase(), [count / 1024, 1024], bytesOf(part)]
  })
  writeSafetensors(file, tensors)
}

async function matrix(file, rows, columns) {
  const shape = [Number(rows), Number(columns)]
  writeFileSync(file, await write({ matrix: tensor({ dtype: 'f32', shape, data: filled(shape[0] * shape[1]) }) }))
}

async function header(file, espalier) {
  const ckpt = await open(readFileSync(espalier))
  let at = 0
  const to = openSync(file, 'w')
  let text = '{'
  for (const t of ckpt.tensors()) {
    const entry = { dtype: 'F32', shape: t.shape, data_offsets: [at, (at += t.byteLength)] }
    text += `${at === t.byteLength ? '' : ','}${JSON.stringify(t.path.replaceAll('/', '.'))}:${JSON.stringify(entry)}`
    if (text.length > 1 << 20) {
      writeSync(to, text)
      text = ''
    }
  }
  writeSync(to, text + '}')
  closeSync(to)
}

async function sparse(file, bytes) {
  // All but the last tensor are views of the same zeros, which are hashed but not written.
  const zeros = new ArrayBuffer(2 ** 30)
  const count = Math.floor(Number(bytes) / zeros.byteLength)
  const tree = {}
  for (let i = 0; i < count; i++) tree[`zeros${i}`] = new Float32Array(zeros)
  tree.last = gaussian(7, 1 << 20)
  const to = openSync(file, 'w')
  const length = await writeTo(tree, ({ offset, bytes }) => {
    if (!isZero(bytes)) writeSync(to, bytes, 0, bytes.length, offset)
  })
  ftruncateSync(to, length)
  closeSync(to)
}

function isZero(bytes) {
  for (let at = 0; at < bytes.length; at += ZEROS.length) {
    const piece = bytes.subarray(at, at + ZEROS.length)
    if (ZEROS.compare(piece, 0, piece.length, 0, piece.length) !== 0) return false
  }
  return true
}
