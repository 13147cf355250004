// Reads a file over HTTP with one of the programs: `remote.mjs PROGRAM TASK BASE FILE REPEAT`.
//
// Prints the time of each sample, and the server's counts of the last one.
//   open     open alone (espalier)
//   list     open, and visit the name, type and shape of every array
//   one      open, and read one array
//   all      open, and read every array
//   some     open, and read every eighth array
//   row      open, and read one row of the matrix
import assert from 'node:assert/strict'

const [program, task, base, file, repeat] = process.argv.slice(2)
const url = `${base}/bench/model/resolve/main/${file}`
const run = await { espalier, huggingface, hyparquet, h5wasm }[program]()
const samples = []
let found
let counts
for (let i = 0; i < Number(repeat); i++) {
  await (await fetch(`${base}/counts`)).json()
  const start = process.hrtime.bigint()
  found = await run()
  samples.push(Number(process.hrtime.bigint() - start))
  counts = await (await fetch(`${base}/counts`)).json()
}
console.log(JSON.stringify({ program, task, ...counts, ...found, samples }))

async function espalier() {
  const { open } = await import('../../wasm/dist/index.js')
  return async () => {
    const ckpt = await open(url)
    let elements = 0
    let read = 0
    if (task === 'row') {
      const { tensor } = ckpt.get('matrix')
      read = (await tensor.read({ slice: [1234] })).data.length
    }
    const tensors = task === 'open' ? [] : [...ckpt.tensors()]
    for (const t of tensors) {
      assert(t.path.length > 0 && t.dtype.length > 0)
      elements += t.shape.reduce((a, b) => a * b, 1)
    }
    const chosen = { one: tensors.filter((t) => t.path === 'a5'), all: tensors, some: tensors.filter((_, i) => i % 8 === 0) }[task] ?? []
    let sample
    for await (const { data: { data } } of ckpt.read(chosen)) {
      read += data.length
      sample = data[100]
    }
    const needed = chosen.reduce((sum, t) => sum + t.stored, 0)
    await ckpt.close()
    return { arrays: tensors.length, elements, read, needed, ...(task === 'one' && { sample }) }
  }
}

async function huggingface() {
  const { parseSafetensorsMetadata } = await import('@huggingface/hub')
  return async () => {
    const { header } = await parseSafetensorsMetadata({ repo: 'bench/model', path: file, hubUrl: base })
    let arrays = 0
    let elements = 0
    for (const [name, { dtype, shape }] of Object.entries(header)) {
      if (name === '__metadata__') continue
      assert(name.length > 0 && dtype.length > 0)
      arrays++
      elements += shape.reduce((a, b) => a * b, 1)
    }
    return { arrays, elements, read: 0 }
  }
}

async function hyparquet() {
  const { asyncBufferFromUrl, parquetMetadataAsync, parquetRead, parquetSchema } = await import('hyparquet')
  return async () => {
    const buffer = await asyncBufferFromUrl({ url })
    const metadata = await parquetMetadataAsync(buffer)
    const columns = parquetSchema(metadata).children
    for (const { element } of columns) assert(element.name.length > 0 && element.type.length > 0)
    const elements = columns.length * Number(metadata.num_rows)
    let read = 0
    let sample
    const onChunk = ({ columnData, rowStart }) => {
      read += columnData.length
      if (rowStart === 0) sample = columnData[100]
    }
    if (task === 'one') await parquetRead({ file: buffer, metadata, columns: ['a5'], onChunk })
    if (task === 'all') await parquetRead({ file: buffer, metadata, onChunk })
    return { arrays: columns.length, elements, read, ...(task === 'one' && { sample }) }
  }
}

async function h5wasm() {
  const { default: h5wasm } = await import('h5wasm')
  const { FS } = await h5wasm.ready
  return async () => {
    FS.writeFile(file, new Uint8Array(await (await fetch(url)).arrayBuffer()))
    const opened = new h5wasm.File(file, 'r')
    const names = opened.keys()
    let elements = 0
    let read = 0
    let sample
    for (const name of names) {
      const dataset = opened.get(name)
      assert(name.length > 0 && dataset.dtype.length > 0)
      elements += dataset.shape.reduce((a, b) => a * b, 1)
      if (task !== 'all' && !(task === 'one' && name === 'a5')) continue
      const { value } = dataset
      read += value.length
      sample = value[100]
    }
    opened.close()
    FS.unlink(file)
    return { arrays: names.length, elements, read, ...(task === 'one' && { sample }) }
  }
}
