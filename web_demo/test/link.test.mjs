import assert from 'node:assert/strict'
import { test } from 'node:test'
import { formatLink, parseLink } from '../build/data/link.js'

const one = (url, key, map) => ({ files: [{ url, key, map }] })

test('links are read as they were written', () => {
  for (const [url, key] of [['a b.espalier', 'x/~20/y&z=1'], ['https://h/a?b=c&d#e', 'ü+%'], ['../f', 'x']]) {
    assert.deepEqual(parseLink(formatLink(one(url, key))), { files: [{ url, key }], isList: false, fields: {} })
  }
  assert.deepEqual(parseLink(formatLink(one('../f'))).files, [{ url: '../f' }])
})

test('a link has all open files, each with its key and its map, and which is shown', () => {
  const map = { map: 'unwrap', options: { at: 'm' } }
  const files = [{ url: 'a', key: 'x/0' }, { url: 'b', map }, { url: 'a', key: 'y', map: { map: 'unwrap', options: {} } }]
  const link = { files, shown: 1, fields: { tab: 'diff', filter: 'a b' } }
  assert.deepEqual(parseLink(formatLink(link)), { ...link, isList: false })
  assert.equal(formatLink({ files: [{ url: 'a' }, { url: 'b' }], shown: 1 }), '#url=a&url=b', 'the last one is shown by default')
  assert.equal(parseLink('#url=a&shown=7').shown, undefined)
  // By hand, in another order.
  assert.deepEqual(parseLink('#key=x&url=a&url=b').files, [{ url: 'a', key: 'x' }, { url: 'b' }])
})

test('a link has a map, and what it must know besides', () => {
  const map = { map: '{"espalier_map": 1, "rules": ["a&b <-> c"]}', options: { reverse: true, sizes: { p: 64 } } }
  assert.deepEqual(parseLink(formatLink(one('a', 'b', map))).files, [{ url: 'a', key: 'b', map }])
  assert.deepEqual(parseLink(formatLink(one('a', undefined, { map: 'unwrap', options: {} }))).files[0].map, { map: 'unwrap', options: {} })
  // Nothing that is fetched comes from a link.
  assert.deepEqual(parseLink('#url=a&map=unwrap&map-options={"mapCore":"https://evil/x.wasm","at":"m"}').files[0].map.options, { at: 'm' })
  assert.deepEqual(parseLink('#url=a&map=unwrap&map-options={').files[0].map.options, {})
})

test('a link can ask for the list, for a run, or for nothing', () => {
  assert.deepEqual(parseLink('#files'), { files: [], isList: true, fields: {} })
  assert.deepEqual(parseLink('#run=a/run.json&url=b&step=7'), { files: [{ url: 'b' }], isList: false, run: 'a/run.json', fields: { step: '7' } })
  assert.equal(formatLink({ run: 'a/run.json', fields: { step: '7', scope: '' } }), '#run=a/run.json&step=7')
  assert.deepEqual(parseLink(''), { files: [], isList: false, fields: {} })
  assert.equal(formatLink({ files: [], fields: { tab: 'map' } }), '')
})

test('paths stay readable', () => {
  assert.equal(formatLink(one('tests/a.espalier', 'model/0')), '#url=tests/a.espalier&key=model/0')
})
