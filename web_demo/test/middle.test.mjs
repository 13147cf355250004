import assert from 'node:assert/strict'
import { test } from 'node:test'
import { cutMiddle } from '../build/tree/middle.js'

const shown = (name, most) => {
  const [start, middle, end] = cutMiddle(name, most)
  assert.equal(start + middle + end, name, 'nothing is lost')
  return middle === '' ? start + end : `${start}…${end}`
}

test('a name that fits is whole', () => {
  assert.equal(shown('weight', 6), 'weight')
  assert.equal(shown('', 10), '')
})

test('a name loses its middle and keeps its end, from a separator on if one is near', () => {
  assert.equal(shown('post_attention_layernorm_with_a_long_name/weight', 30), 'post_atten…_a_long_name/weight')
  assert.equal(shown('abcdefghijklmnopqrstuvwxyz', 11), 'abc…tuvwxyz')
})

test('a path keeps its last names', () => {
  assert.equal(shown('model/layers/17/self_attn/q_proj/weight', 30), '…/17/self_attn/q_proj/weight')
  assert.equal(shown('model/layers/7/self_attn/q_proj/weight', 30), '…/7/self_attn/q_proj/weight')
})

test('however little space there is, it is used and not exceeded', () => {
  for (const name of ['a/b/c/d/e/f/g/h/i/j/k', 'some_rather_long_name', 'x'.repeat(300)]) {
    for (let most = 5; most < 40; most++) {
      const text = shown(name, most)
      assert.ok(text.length <= most, `${text} in ${most}`)
      if (name.length > most) assert.ok(text.length >= most - 6, `${text} in ${most}`)
    }
  }
})
