// Files that name very many others: none of these is asked for beyond the limit, and few where they fail.
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { EspalierError, open } from 'espalier'

const script = new URL('../../tests/support/fan_out.py', import.meta.url).pathname

test('more files than the limit are refused before one is asked for', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'espalier-'))
  t.after(() => rmSync(folder, { recursive: true }))
  const paths = execFileSync(process.env.PYTHON || '/usr/bin/python3', [script, folder], { encoding: 'utf8' }).trim().split('\n')
  assert.equal(paths.length, 3)
  for (const path of paths) {
    const file = new File([readFileSync(path)], path.split('/').at(-1))
    await assert.rejects(open(file, { siblings: () => assert.fail('it was asked for') }), (error) => {
      assert.equal(error.code, 'limit_exceeded')
      assert.match(error.message, /^the checkpoint has bytes in (65534|20000) further files and Limits::files allows 1024/)
      return true
    })
  }
})

test('after some files that fail, no more are asked for', async () => {
  const names = Array.from({ length: 300 }, (_, i) => [`t${i}`, `file-${i}`])
  const index = new File([JSON.stringify({ weight_map: Object.fromEntries(names) })], 'model.safetensors.index.json')
  const asked = new Set()
  const refused = {
    size: async () => {
      throw new EspalierError('io_error', 'the server refuses')
    },
    read: () => assert.fail('it was read'),
  }
  // Three may fail, and the names come in several parts.
  const some = (name) => (asked.add(name), ['file-5', 'file-150', 'file-290', 'file-295'].includes(name) ? refused : undefined)
  await assert.rejects(open(index, { siblings: some }), { code: 'io_error', file: 'file-295' })
  assert.ok(asked.size > 290)
  asked.clear()
  await assert.rejects(open(index, { siblings: (name) => asked.add(name) && refused }), {
    code: 'io_error',
    message: '4 further files could not be read, so no more were asked for; of this one: the server refuses',
    file: 'file-3',
  })
  assert.ok(asked.size <= 3 + 32, `${asked.size} were asked for`)
  // Files that are not there are no refusal: what lies in the others can be read.
  asked.clear()
  const checkpoint = await open(index, { siblings: (name) => void asked.add(name) })
  assert.equal(asked.size, 300)
  assert.equal(checkpoint.tensorCount, 300)
})
