// toFloat32() against tests/data/elements/values.txt, which numpy and ml_dtypes have made, and exact roundings.
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { TensorData } from 'espalier'

const BITS = { i4: 4, u4: 4, i2: 2, u2: 2, f16: 16, bf16: 16, f4_e2m1fn: 4, f6_e2m3fn: 6, f6_e3m2fn: 6 }
const values = new Map()
for (const line of readFileSync(new URL('../../tests/data/elements/values.txt', import.meta.url), 'utf8').trim().split('\n')) {
  const [dtype, code, value] = line.split(' ')
  if (!values.has(dtype)) values.set(dtype, [])
  values.get(dtype).push([Number(code), value === 'inf' ? Infinity : value === '-inf' ? -Infinity : Number(value)])
}

function pack(codes, bits) {
  if (bits === 16) return Uint16Array.from(codes)
  const bytes = new Uint8Array((codes.length * bits) / 8)
  codes.forEach((code, i) => {
    for (let bit = 0; bit < bits; bit++) {
      if ((code >> bit) & 1) bytes[(i * bits + bit) >> 3] |= 1 << ((i * bits + bit) & 7)
    }
  })
  return bytes
}

assert.equal(values.size, 16)
for (const [dtype, pairs] of values) {
  test(`${dtype}: ${pairs.length} codes`, () => {
    let data = pack(pairs.map(([code]) => code), BITS[dtype] ?? 8)
    if (dtype === 'i8') data = new Int8Array(data.buffer)
    const floats = new TensorData(dtype, [pairs.length], data).toFloat32()
    assert.equal(floats.length, pairs.length)
    // Object.is() by way of deepEqual: -0 is not 0, and NaN is NaN. Every value here is exact as an f32.
    pairs.forEach(([code, value], i) => assert.ok(Object.is(floats[i], value), `${code}: ${floats[i]}, not ${value}`))
  })
}

test('bf16 keeps every bit of a NaN', () => {
  const floats = new TensorData('bf16', [2], Uint16Array.of(0x7fc1, 0xff81)).toFloat32()
  assert.deepEqual(new Uint32Array(floats.buffer), Uint32Array.of(0x7fc10000, 0xff810000))
})

test('64-bit integers are rounded once', () => {
  // 2^54 + 2^30 lies half way between two floats, and one more decides; a double on the way would lose the one.
  const tie = 2n ** 54n + 2n ** 30n
  const floats = new TensorData('i64', [6], BigInt64Array.of(tie, tie + 1n, -tie - 1n, 2n ** 63n - 1n, -5n, 2n ** 53n + 1n)).toFloat32()
  const step = 2 ** 31
  assert.deepEqual([...floats], [2 ** 54, 2 ** 54 + step, -(2 ** 54) - step, 2 ** 63, -5, 2 ** 53])
  assert.deepEqual([...new TensorData('u64', [2], BigUint64Array.of(2n ** 64n - 1n, 7n)).toFloat32()], [2 ** 64, 7])
})

test('other types', () => {
  assert.deepEqual([...new TensorData('bool', [3], Uint8Array.of(0, 1, 7)).toFloat32()], [0, 1, 1])
  assert.deepEqual([...new TensorData('f64', [2], Float64Array.of(1e300, 0.1)).toFloat32()], [Infinity, Math.fround(0.1)])
  assert.deepEqual([...new TensorData('c128', [1], Float64Array.of(1, -2)).toFloat32()], [1, -2])
  const f32 = Float32Array.of(1)
  assert.equal(new TensorData('f32', [1], f32).toFloat32(), f32)
  assert.throws(() => new TensorData('opaque', [32], new Uint8Array(18)).toFloat32(), { code: 'wrong_kind' })
})
