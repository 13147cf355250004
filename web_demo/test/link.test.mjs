import assert from 'node:assert/strict'
import { test } from 'node:test'
import { open, write } from 'espalier'
import { formatLink, parseLink } from '../build/data/link.js'
import { nearest } from '../build/data/use-files.js'
import { formatOrder, parseOrder, STORED } from '../build/tree/order.js'
import { Outline } from '../build/tree/outline.js'

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

test('a link that names a missing key leads to its nearest container', async () => {
  const checkpoint = await open(await write({ a: { 'b/c': [{ d: 1 }, 2], 8: 1 } }))
  const outline = new Outline(checkpoint)
  const found = (key) => {
    const { item, isExact } = nearest({ checkpoint, outline }, key)
    return [outline.node(item).path, isExact]
  }
  for (const key of ['', 'a', 'a/b~1c', 'a/b~1c/0/d', 'a/b~1c/1']) assert.deepEqual(found(key), [key, true])
  assert.deepEqual(found('/a/'), ['a', true])
  for (const [key, container] of [['b', ''], ['/b', ''], ['~9/a', ''], ['a/x/y', 'a'], ['a//b~1c', 'a'], ['a/~9', 'a'], ['a/b~1c/0/d/e/f', 'a/b~1c/0/d'], ['a/b~1c/2', 'a/b~1c']]) {
    assert.deepEqual(found(key), [container, false], key)
  }
})

test('a link with a very long key does not freeze the page', async () => {
  const checkpoint = await open(await write({ a: { a: 1 } }))
  const outline = new Outline(checkpoint)
  let lookups = 0
  const counted = { get: (path) => (lookups++, checkpoint.get(path)) }
  assert.deepEqual(nearest({ checkpoint: counted, outline }, 'a/'.repeat(5_000)), { item: checkpoint.get('a/a').id, isExact: false })
  assert.ok(lookups < 20, `${lookups} lookups`)
  // The format has no key path above 16 KiB.
  const { files, fields } = parseLink(`#url=x&key=${'a'.repeat(100_000)}&filter=${'b'.repeat(100_000)}`)
  assert.equal(files[0].key.length, 16_385, 'it is still a key that no file has')
  assert.equal(fields.filter.length, 16_385)
})

test('a link names files without an address, by their names and digests', () => {
  const files = [{ url: 'a.espalier', digest: '0123456789ab', key: 'model' }, { url: '', name: 'of mine.espalier', digest: 'ba9876543210', key: 'x' }]
  const text = formatLink({ files, shown: 0, fields: { sort: '-bytes' } })
  assert.equal(text, '#url=a.espalier&digest=0123456789ab&key=model&file=of%20mine.espalier&digest=ba9876543210&key=x&shown=0&sort=-bytes')
  assert.deepEqual(parseLink(text), { files, shown: 0, isList: false, fields: { sort: '-bytes' } })
})

test('an order of the tree in a link', () => {
  for (const order of [STORED, { by: 'name', isDown: false }, { by: 'bytes', isDown: true }, { by: 'params', isDown: false }]) assert.deepEqual(parseOrder(formatOrder(order)), order)
  for (const text of ['', 'stored', '--bytes', 'bytes ', 'constructor']) assert.deepEqual(parseOrder(text), STORED)
})
