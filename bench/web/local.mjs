// Times the package on bytes in memory and on files: `local.mjs TASK FILE REPEAT`. Run it with --expose-gc.
//
//   open      open(): validates the whole index
//   match     matching patterns over all names, each several times
//   json      decoding a safetensors header as text, and JSON.parse of it
//   decode    every chunk: core (into the core's memory, decode, check, out of it) and the whole API
//   verify    the whole file: core and API
//   stats     of every bf16 tensor: counting alone, core and API
//   large     a file beyond 4 GiB through a file handle: open, read its last tensor, verify
import { readFileSync } from 'node:fs'
import { open as openFile } from 'node:fs/promises'
import { Core } from '../../wasm/dist/core/core.js'
import { DTYPES } from '../../wasm/dist/core/names.js'
import { coreAddress, engineAddress } from '../../wasm/dist/core/module.js'
import { Opening } from '../../wasm/dist/core/opening.js'
import { tensorInfo } from '../../wasm/dist/core/tensors.js'
import { Decoder } from '../../wasm/dist/engine/decoder.js'
import { Plan, Verification } from '../../wasm/dist/engine/plan.js'
import { open } from '../../wasm/dist/index.js'

// Some for nested names, some for dotted ones, and all.
const PATTERNS = ['optimizer/**/exp_avg', 'state/model/layers/77/**', '**/q_proj/**', '*.layers.77.*', '*.q_proj.weight', '**']

const [task, file, count] = process.argv.slice(2)
const repeat = Number(count)
console.log(JSON.stringify({ task, ...(await { open: opening, match, json, decode, verify, stats, large }[task]()) }))

/** The time of each of `repeat` calls, with garbage collected between them. */
async function timed(work, times = repeat) {
  const samples = []
  for (let i = 0; i < times; i++) {
    globalThis.gc?.()
    const start = process.hrtime.bigint()
    await work()
    samples.push(Number(process.hrtime.bigint() - start))
  }
  return samples
}

/** The tree of a file in memory, like open() but without the API around it. */
async function treeOf(bytes) {
  const core = await Core.load(coreAddress(), 'espalier_open')
  const opening = new Opening(core, bytes.length, 0)
  for (let need = opening.need(); need; need = opening.need()) {
    opening.feed(0, need.offset, bytes.subarray(need.offset, need.offset + need.length))
  }
  return opening.finish()
}

function plansOf(tree) {
  return Array.from({ length: tree.info.tensors }, (_, tensor) => new Plan(tree, tensor, DTYPES.indexOf(tensorInfo(tree, tensor).dtype), []))
}

async function opening() {
  const bytes = readFileSync(file)
  let tensors = 0
  let memory = 0
  const open_ns = await timed(async () => {
    const ckpt = await open(bytes)
    tensors = ckpt.tensorCount
    memory = ckpt.meter.memoryBytes
    await ckpt.close()
  })
  return { tensors, memory, open_ns }
}

async function match() {
  const ckpt = await open(readFileSync(file))
  const patterns = {}
  for (const pattern of PATTERNS) {
    let matches = 0
    const match_ns = await timed(() => {
      matches = ckpt.tensors(pattern).length
    })
    patterns[pattern] = { matches, match_ns }
  }
  return { tensors: ckpt.tensorCount, patterns }
}

async function json() {
  const bytes = readFileSync(file)
  let tensors = 0
  const json_ns = await timed(() => {
    tensors = Object.keys(JSON.parse(new TextDecoder().decode(bytes))).length
  })
  return { tensors, json_ns }
}

async function decode() {
  const bytes = readFileSync(file)
  const tree = await treeOf(bytes)
  const decoder = await Decoder.load(engineAddress())
  const plans = plansOf(tree)
  const results = plans.map((plan) => new Uint8Array(plan.bytes))
  const core_ns = await timed(() => {
    plans.forEach((plan, p) => {
      const job = decoder.decoding(plan)
      plan.chunks.forEach(({ offset, length }, i) => {
        job.deliver(plan.task(i), bytes.subarray(offset, offset + length), (piece, at) => results[p].set(piece, at))
      })
      job.close()
    })
  })
  const api_ns = await timed(async () => {
    const ckpt = await open(bytes)
    for (const t of ckpt.tensors()) await t.read()
    await ckpt.close()
  })
  const stored = plans.reduce((sum, plan) => sum + plan.stored, 0)
  return { bytes: results.reduce((sum, r) => sum + r.length, 0), stored, memory: tree.core.memoryBytes + decoder.core.memoryBytes, core_ns, api_ns }
}

async function verify() {
  const bytes = readFileSync(file)
  const tree = await treeOf(bytes)
  const decoder = await Decoder.load(engineAddress())
  const { regions } = new Verification(tree)
  const check = (ok) => {
    if (!ok) throw new Error('the file is damaged')
  }
  const core_ns = await timed(() => {
    const job = new Verification(tree)
    regions.forEach(({ offset, length }, i) => job.take(i, decoder.check(job.task(i), bytes.subarray(offset, offset + length))))
    check(job.finish().ok)
    job.close()
  })
  const ckpt = await open(bytes)
  const api_ns = await timed(async () => check((await ckpt.verify()).ok))
  return { bytes: regions.reduce((sum, r) => sum + r.length, 0), memory: tree.core.memoryBytes + decoder.core.memoryBytes, core_ns, api_ns }
}

async function stats() {
  const bytes = readFileSync(file)
  const tree = await treeOf(bytes)
  const decoder = await Decoder.load(engineAddress())
  const plans = plansOf(tree)
  const core_ns = await timed(() => {
    for (const plan of plans) {
      const job = decoder.counting(plan, plan.dtype)
      plan.chunks.forEach(({ offset, length }, i) => job.add(plan.task(i), bytes.subarray(offset, offset + length)))
      job.result()
      job.close()
    }
  })
  // The counted bytes are in the decoder's memory and already checked.
  const { core } = decoder
  const { offset, length } = plans[0].chunks[0]
  const chunk = core.put(bytes.subarray(offset, offset + length))
  const chunks = plans.reduce((sum, plan) => sum + plan.chunks.length, 0)
  const count_ns = await timed(() => {
    const counting = core.pointer(core.call.espalier_statistics(DTYPES.indexOf('bf16')))
    for (let i = 0; i < chunks; i++) core.call.espalier_statistics_add(counting, chunk, length)
    core.call.espalier_statistics_result(counting, core.out)
    core.call.espalier_statistics_histogram(counting, core.out)
    core.call.espalier_statistics_free(counting)
  })
  const ckpt = await open(bytes)
  const api_ns = await timed(async () => {
    for (const t of ckpt.tensors()) await t.stats()
  })
  const counted = chunks * length
  return { bytes: plans.reduce((sum, plan) => sum + plan.bytes, 0), counted, memory: core.memoryBytes, count_ns, core_ns, api_ns }
}

async function large() {
  let report
  const open_ns = await timed(async () => {
    const handle = await openFile(file)
    const ckpt = await open(handle)
    report = { file_bytes: ckpt.fileLength, tensors: ckpt.tensorCount, ...ckpt.meter }
    await ckpt.close()
    await handle.close().catch(() => {})
  })
  const handle = await openFile(file)
  const ckpt = await open(handle)
  const read_ns = await timed(async () => {
    const { data } = await ckpt.get('last').tensor.read()
    if (data[0] === 0) throw new Error('not what was written')
  })
  const { memoryBytes: memory_read } = ckpt.meter
  const verify_ns = await timed(async () => {
    if (!(await ckpt.verify()).ok) throw new Error('the file is damaged')
  }, 1)
  const { memoryBytes: memory_verify } = ckpt.meter
  await ckpt.close()
  return { ...report, memory_read, memory_verify, open_ns, read_ns, verify_ns }
}
