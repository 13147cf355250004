import assert from 'node:assert/strict'
import { test } from 'node:test'
import { formatLink, parseLink } from '../build/data/link.js'

test('links are read as they were written', () => {
  for (const [url, key] of [['a b.espalier', 'x/~20/y&z=1'], ['https://h/a?b=c&d#e', 'ü+%'], ['../f', undefined]]) {
    assert.deepEqual(parseLink(formatLink(url, key)), { url, key, files: false })
  }
})

test('a link has a map, and what it must know besides', () => {
  const map = { map: '{"espalier_map": 1, "rules": ["a&b <-> c"]}', options: { reverse: true, sizes: { p: 64 } } }
  assert.deepEqual(parseLink(formatLink('a', 'b', map)), { url: 'a', key: 'b', map, files: false })
  assert.deepEqual(parseLink(formatLink('a', undefined, { map: 'unwrap', options: {} })).map, { map: 'unwrap', options: {} })
  // Nothing that is fetched comes from a link.
  assert.deepEqual(parseLink('#url=a&map=unwrap&map-options={"mapCore":"https://evil/x.wasm","at":"m"}').map.options, { at: 'm' })
  assert.deepEqual(parseLink('#url=a&map=unwrap&map-options={').map.options, {})
})

test('a link can ask for the list, or for nothing', () => {
  assert.deepEqual(parseLink('#files'), { files: true })
  assert.deepEqual(parseLink(''), { url: undefined, key: undefined, files: false })
  assert.equal(formatLink(undefined, 'x'), '')
})

test('paths stay readable', () => {
  assert.equal(formatLink('tests/a.espalier', 'model/0'), '#url=tests/a.espalier&key=model/0')
})
