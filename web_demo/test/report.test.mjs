// Reports of what was found.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { open, tensor, write } from 'espalier'
import { htmlOf, markdownOf, reportOf } from '../build/health/report.js'

const HOSTILE = '<img src=x onerror=alert(1)> `|*[a](javascript:b)\u202e'

async function report(url) {
  const data = new Float32Array(64).fill(1)
  data[33] = NaN
  const checkpoint = await open(await write({ [HOSTILE]: tensor({ dtype: 'f32', shape: [8, 8], data }), sound: new Float32Array([1, 2]) }))
  const result = await checkpoint.examine()
  return { checkpoint, report: reportOf({ name: 'x.espalier', url, map: undefined, checkpoint }, result, new Date(Date.UTC(2026, 0, 2, 3, 4))) }
}

test('a report has the findings, the figures and where they are from', async () => {
  globalThis.location = new URL('https://page.example/viewer/')
  const { checkpoint, report: made } = await report('https://data.example/x.espalier')
  delete globalThis.location
  assert.equal(made.verdict, '1 fault.')
  assert.deepEqual(made.groups.map(({ severity, rule, findings }) => [severity, rule, findings.map(({ text }) => text)]), [['fault', 'nan', ['1 of 64 elements is NaN, the first at [4, 1]']]])
  const facts = Object.fromEntries(made.facts)
  assert.equal(facts.Digest, checkpoint.digest)
  assert.equal(facts.Address, 'https://data.example/x.espalier')
  assert.match(facts.Made, /^2026-01-02 03:04 UTC, by Espalier 0\.0\.0-test$/)
  assert.deepEqual(made.rows.map(([path, dtype, shape]) => [path.slice(0, 5), dtype, shape]), [['<img ', 'f32', '[8, 8]'], ['sound', 'f32', '[2]']])
  const link = new URL(made.groups[0].findings[0].link)
  assert.equal(link.origin + link.pathname, 'https://page.example/viewer/')
  assert.match(link.hash, /^#url=https:\/\/data\.example\/x\.espalier&key=.*&view=values&at=4\/1$/)
})

test('names from a file are no markup in it', async () => {
  const { report: made } = await report(undefined)
  const html = htmlOf(made)
  assert.ok(!/<(img|a)/.test(html) && html.includes('&#60;img src=x onerror=alert(1)&#62;') && html.includes('\\u{202e}'))
  assert.ok(!/<script|https?:/.test(html) && html.includes("default-src 'none'"), 'it runs and fetches nothing')
  const markdown = markdownOf(made)
  assert.ok(markdown.includes('- \\<img src=x onerror=alert(1)\\> \\`\\|\\*\\[a\\](javascript:b)'), markdown.slice(0, 900))
  const table = markdown.split('\n').filter((line) => line.startsWith('| '))
  assert.equal(table.length, 4)
  assert.equal(new Set(table.map((line) => line.replaceAll('\\|', '').split('|').length)).size, 1, 'each row has as many cells')
})

test('of very many findings it has the first ones, with short links, and says how many there are', async () => {
  globalThis.location = new URL('https://page.example/viewer/')
  const key = 'k'.repeat(9000)
  const checkpoint = await open(await write({ [key]: Array.from({ length: 1003 }, () => Float32Array.of(NaN, 1)), short: Float32Array.of(NaN, 1) }))
  const made = reportOf({ name: 'x', url: 'https://data.example/x', map: undefined, checkpoint }, await checkpoint.examine(), new Date(0))
  delete globalThis.location
  const [{ findings, more }] = made.groups
  assert.deepEqual([findings.length, more], [1000, 4])
  assert.ok(findings.every(({ link }) => link.length < 1000))
  assert.ok(htmlOf(made).includes('<li>and 4 more</li>') && markdownOf(made).includes('\n- and 4 more\n'))
})
