// Text from files: every character must be visible.
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { open, write } from 'espalier'
import { visible, visibleText } from '../build/ui/visible.js'
import { native } from './support/native.mjs'

test('every character is shown as the command line shows it', async () => {
  const tree = new Map()
  for (let first = 0; first < 0x110000; first += 0x800) {
    if (first === 0xd800) continue
    tree.set(String.fromCodePoint(...Array.from({ length: 0x800 }, (_, i) => first + i)), Uint8Array.of(1))
  }
  const file = await write(tree)
  const folder = mkdtempSync(join(tmpdir(), 'espalier-visible-'))
  try {
    writeFileSync(join(folder, 'all.espalier'), file)
    const lines = execFileSync(native, ['ls', 'all.espalier'], { cwd: folder, encoding: 'utf8', maxBuffer: 1 << 26 }).split('\n')
    const paths = Array.from((await open(file)).tensors(), ({ path }) => path)
    assert.equal(paths.length, tree.size)
    for (const [i, path] of paths.entries()) assert.equal(`u8  [1]  1 B  ${visibleText(path)}`, lines[i])
  } finally {
    rmSync(folder, { recursive: true })
  }
})

test('halves of characters, line breaks that are kept, and long texts', () => {
  assert.equal(visibleText('\ud800é🌳'), '\\u{d800}é🌳')
  assert.equal(visibleText('a\nb\t', '\n'), 'a\nb\\t')
  assert.match(visible(`${'x'.repeat(1000)}\u3164`), /^x{240}\[\.\.\.\]x{49}\\u\{3164\}$/)
})
