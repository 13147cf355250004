// The .npy files, as NumPy reads them.
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { open, tensor, TensorData, write } from 'espalier'
import { npyHeader, npyName, npyPieces, planNpy } from '../../build/tensor/npy.js'

const golden = new URL('../../../tests/golden/', import.meta.url)
const SCRIPT = `
import json, sys, numpy
out = []
for path in sys.argv[1:]:
    a = numpy.load(path, allow_pickle=False)
    values = None
    if a.dtype.kind in 'iub': values = [str(int(v)) for v in a.ravel()]
    elif a.dtype.kind == 'f': values = [float(v).hex() if numpy.isfinite(v) else str(float(v)) for v in a.ravel()]
    out.append({'dtype': a.dtype.str, 'shape': list(a.shape), 'values': values, 'bytes': a.tobytes().hex()})
print(json.dumps(out))
`

async function contents(tensor) {
  const pieces = []
  for await (const piece of npyPieces(tensor, new AbortController().signal, () => {})) pieces.push(piece)
  return Buffer.concat(pieces)
}

/** NumPy's description of files. */
function load(files) {
  const folder = mkdtempSync(join(tmpdir(), 'espalier-npy-'))
  try {
    const paths = files.map((bytes, i) => {
      const path = join(folder, `${i}.npy`)
      writeFileSync(path, bytes)
      return path
    })
    return JSON.parse(execFileSync('/usr/bin/python3', ['-c', SCRIPT, ...paths], { encoding: 'utf8', maxBuffer: 1 << 28 }))
  } finally {
    rmSync(folder, { recursive: true })
  }
}

test('NumPy loads every dtype, with the right shape and elements', async () => {
  const ckpt = await open(new Uint8Array(readFileSync(new URL('every_dtype.espalier', golden))))
  const tensors = [...ckpt.tensors()]
  const files = await Promise.all(tensors.map(contents))
  const loaded = load(files)
  for (const [i, t] of tensors.entries()) {
    const plan = planNpy(t)
    const { dtype, shape, values, bytes } = loaded[i]
    assert.equal(dtype, plan.descr, t.path)
    assert.deepEqual(shape, plan.shape, t.path)
    assert.equal(files[i].length, plan.fileBytes, t.path)
    const data = await t.read()
    if (plan.conversion === 'none' || plan.conversion === 'blocks') {
      assert.equal(bytes, Buffer.from(data.data.buffer, data.data.byteOffset, data.data.byteLength).toString('hex'), t.path)
    } else if (plan.conversion === 'float32') {
      assert.equal(bytes, Buffer.from(data.toFloat32().buffer).toString('hex'), t.path)
      assert.ok(plan.remark)
    } else {
      assert.deepEqual(values.map(Number), Array.from(data.toFloat32()), t.path)
    }
  }
  assert.deepEqual(loaded[tensors.findIndex((t) => t.path === '0-d')].shape, [])
  assert.deepEqual(loaded[tensors.findIndex((t) => t.path === 'empty')].shape, [3, 0])
})

test('a tensor of several reads is whole', async () => {
  const ckpt = await open(new Uint8Array(readFileSync(new URL('chunks.espalier', golden))))
  for (const t of ckpt.tensors()) {
    if (t.isPlaceholder || t.dtype === 'opaque') continue
    const [loaded] = load([await contents(t)])
    const { data } = await t.read()
    assert.equal(loaded.bytes, Buffer.from(data.buffer, data.byteOffset, data.byteLength).toString('hex'), t.path)
  }
  const file = await write({ big: tensor({ dtype: 'i4', shape: [3, 6_000_002], data: new Uint8Array(9_000_003).fill(0x1f) }) })
  const big = (await open(file)).get('big').tensor
  const [{ shape, bytes }] = load([await contents(big)])
  assert.deepEqual(shape, [3, 6_000_002])
  assert.equal(bytes, Buffer.from(Int8Array.from((await big.read()).toFloat32()).buffer).toString('hex'))
})

test('bools are 0 or 1, whatever their bytes', async () => {
  const plan = planNpy({ dtype: 'bool', shape: [3] })
  const { npyBytes } = await import('../../build/tensor/npy.js')
  assert.deepEqual([...npyBytes(new TensorData('bool', [3], Uint8Array.of(0, 1, 7)), plan)], [0, 1, 1])
})

test('a header has a length that is a multiple of 64, and version 2.0 if it is long', () => {
  for (let axes = 0; axes < 40; axes++) assert.equal(npyHeader('<f4', new Array(axes).fill(123)).length % 64, 0)
  const long = npyHeader('<f4', new Array(40000).fill(1))
  assert.equal(long[6], 2)
  assert.equal(long.length % 64, 0)
  assert.equal(npyHeader('<f4', [3])[6], 1)
})

test('file names are harmless', () => {
  assert.equal(npyName('model/layers/~20/weight'), 'model_layers_20_weight.npy')
  assert.equal(npyName('../../etc/passwd'), 'etc_passwd.npy')
  assert.equal(npyName('-rf/.x'), 'rf_.x.npy')
  // Also of a long one, which is cut.
  assert.equal(npyName(`long${'-'.repeat(50)}.${'w'.repeat(60)}`), `${'w'.repeat(60)}.npy`)
  assert.equal(npyName(''), 'tensor.npy')
  assert.equal(npyName('日本'), 'tensor.npy')
})
