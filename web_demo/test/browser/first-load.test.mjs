// The bytes of the first load: the page, its script and its styles, and the module that opens Espalier files.
import assert from 'node:assert/strict'
import { readFileSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { gzipSync } from 'node:zlib'
import { built } from './support/site.mjs'

/** 105 KiB by `gzip -9`. The copies that zopfli makes for servers are 4% smaller. */
const MOST = 105 * 1024

test('the first load has at most 105 KiB, gzipped', (context) => {
  const html = readFileSync(join(built, 'index.html'), 'utf8')
  const named = [...html.matchAll(/(?:src|href)="\.\/(assets\/[^"]+\.(?:js|css))"/g)].map(([, name]) => name)
  assert.equal(named.length, 2)
  const core = readdirSync(join(built, 'assets')).filter((name) => /^core-[\w-]{8}\.wasm$/.test(name) && !/^core-(all|map)-/.test(name))
  assert.equal(core.length, 1)
  const sizes = ['index.html', ...named, `assets/${core[0]}`].map((name) => [name, gzipSync(readFileSync(join(built, name)), { level: 9 }).length])
  const sum = sizes.reduce((total, [, size]) => total + size, 0)
  context.diagnostic(`${sum} bytes: ${sizes.map(([name, size]) => `${name} ${size}`).join(', ')}`)
  assert.ok(sum <= MOST, `${sum} bytes, and at most ${MOST} are allowed: load what is not needed at first later`)
})
