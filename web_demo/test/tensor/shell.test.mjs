// Commands that are pasted into a terminal, with names that would like to be more than names.
import assert from 'node:assert/strict'
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { after, test } from 'node:test'
import { write } from 'espalier'
import { escapePattern, snippetsFor } from '../../build/tensor/snippets.js'
import { native } from '../support/native.mjs'

const SHELLS = { bash: ['--norc', '--noprofile'], zsh: ['-f'], ksh: [], dash: [], busybox: ['sh'], fish: ['--no-config'] }

/** Text that each shell, or the terminal before it, may interpret. */
const PIECES = [
  "'", '"', '\\', "\\'", "'\\", "\\\\'", '$', '$(touch PWN)', '`touch PWN`', '; touch PWN;', "'; touch PWN;'", "\\'; touch PWN #", '!', '!!', '!p', '!-1', '!?p?',
  '^', '^p^q^', '#', ' #', '~', '~root', '*', '?', '[a-z]', '{a,b}', '{1..3}', '(', ')', '(id)', '<', '>', '>PWN', '|', '||', '&', '&&', '=ls', '=(id)', '%', '%self', '%1',
  '@(a)', '+(a)', '-', '--', '-rf', '--help', '.', '..', '/', '~1', '~20', ' ', '  ', ',', ':', '=', 'a', 'p', 'x1', '0', '\\n', '\\x41', '\\u0041', '$HOME', '${IFS}', "$'a'",
]

/** A generator of whole numbers below a bound, always the same. */
let state = 20240229
function below(bound) {
  state = (Math.imul(state, 1664525) + 1013904223) >>> 0
  return Math.floor((state / 2 ** 32) * bound)
}
const hostileName = (pieces = 1 + below(9)) => Array.from({ length: pieces }, () => PIECES[below(PIECES.length)]).join('')

const NAMES = [
  "w\\'; touch PWN #", '', ' ', "'", '\\', "\\'!p'", '-', '--', "it's", ...PIECES,
  ...Array.from({ length: 10_000 }, () => hostileName()),
]

const folders = []
function folder() {
  folders.push(mkdtempSync(join(tmpdir(), 'espalier-shell-')))
  return folders.at(-1)
}
after(() => folders.forEach((name) => rmSync(name, { recursive: true })))

/** Runs lines in a shell, in a fresh folder. @returns their output, and the names of the files they leave there */
function run(shell, options, lines, env = {}) {
  const cwd = folder()
  const { error, stdout, stderr } = spawnSync(shell, [...SHELLS[shell], ...options], {
    cwd, input: lines, env: { PATH: process.env.PATH, HOME: folder(), LC_ALL: 'C', ...env }, maxBuffer: 1 << 28,
  })
  // A shell that is not installed has shown nothing.
  assert.ifError(error)
  return { stdout, stderr: stderr.toString(), left: readdirSync(cwd) }
}

const local = (name) => ({ name, url: undefined })
const remote = (url) => ({ name: decodeURIComponent(url.split('/').pop()), url })
const part = (file, path, wanted) => snippetsFor(file, path).find(({ title }) => title === wanted)
const shellOf = (file, path) => part(file, path, 'Shell')
const downloadOf = (url) => part(remote(url), 'w', 'Shell: download')

/** The commands for names, with a program that prints its words in the place of `espalier`; and what it must print. */
function printing(names) {
  let lines = ''
  let expected = ''
  for (const [i, path] of names.entries()) {
    const file = names[(i + 1) % names.length]
    lines += `${shellOf(local(file), path).text.replace(/^espalier (show|stats) -- /gm, "printf '%s\\n' ")}\n`
    expected += `${file}\n${path}\n${file}\n${escapePattern(path)}\n`
  }
  return { lines, expected: Buffer.from(expected) }
}

function assertPrinted({ stdout, stderr, left }, expected) {
  if (!stdout.equals(expected)) {
    const [got, wanted] = [stdout, expected].map((bytes) => bytes.toString().split('\n'))
    const line = wanted.findIndex((text, i) => text !== got[i])
    assert.fail(`line ${line} is ${JSON.stringify(got[line])}, not ${JSON.stringify(wanted[line])}\n${stderr.slice(0, 1000)}`)
  }
  assert.deepEqual(left, [])
}

for (const shell of Object.keys(SHELLS)) {
  test(`${shell} gets back ${NAMES.length} names`, () => {
    const { lines, expected } = printing(NAMES)
    const script = join(folder(), 'script')
    writeFileSync(script, lines)
    assertPrinted(run(shell, [script], ''), expected)
  })
}

const TYPED = {
  bash: { set: 'set -o history -o histexpand', event: 'event' },
  // Two of the names are global aliases.
  zsh: { set: 'setopt rcquotes extendedglob interactivecomments; alias -g x1=event a=event', event: 'x1' },
}
for (const [shell, { set, event }] of Object.entries(TYPED)) {
  test(`${shell} gets them back when they are typed, where it replaces more than in scripts`, () => {
    // Whether anything is replaced at all, or the test shows nothing.
    const start = `${set}\nprintf '%s\\n' ${event}\n!p\n`
    const { lines, expected } = printing(NAMES)
    const { stdout, ...rest } = run(shell, ['-i'], start + lines, { HISTFILE: '/dev/null', PS1: '', PS2: '' })
    assert.equal(stdout.subarray(0, 12).toString(), 'event\nevent\n')
    assertPrinted({ ...rest, stdout: stdout.subarray(12) }, expected)
  })
}

test('names that are not printable ASCII, and lines that a terminal cuts, are refused in a sentence', () => {
  const refused = (snippet) => 'refusal' in snippet && /^[A-Z].+\.$/.test(snippet.refusal) && !('text' in snippet)
  for (let code = 0; code <= 0xffff; code++) {
    const name = `a${String.fromCharCode(code)}`
    assert.equal(refused(shellOf(local('run.espalier'), name)), code < 0x20 || code > 0x7e, JSON.stringify(name))
  }
  for (const name of ['\u{1f333}', '\u2820; touch PWN;', '\u001b[201~']) {
    const [shell, ...programs] = snippetsFor(local(name), 'w')
    assert.ok(refused(shell) && programs.every(({ text }) => text), JSON.stringify(name))
  }
  assert.ok(refused(shellOf(local('run.espalier'), `${'a'.repeat(5000)}; touch PWN;`)))
  assert.ok('text' in shellOf(local('run.espalier'), 'a'.repeat(900)))
})

/** A folder of programs that stand in for others: each appends its name and its words to `log`, and then does what it is told to. */
function programs(log, actions) {
  const bin = folder()
  for (const [name, action] of Object.entries(actions)) {
    writeFileSync(join(bin, name), `#!/bin/sh\nprintf '%s\\0' ${name} "$@" >>'${log}'\n${action}\n`)
    chmodSync(join(bin, name), 0o755)
  }
  return `${bin}:${process.env.PATH}`
}

for (const shell of Object.keys(SHELLS)) {
  test(`${shell} runs the programs with these words and no others`, () => {
    const log = join(folder(), 'log')
    const PATH = programs(log, { espalier: ':', curl: ':' })
    const names = NAMES.filter((_, i) => i < 9 || i % 500 === 0)
    const expected = []
    const script = names.map((path, i) => {
      const url = new URL(`/${i}/${encodeURIComponent(path)}'!?q='"$(touch PWN)#1`, 'https://host').href
      const download = downloadOf(url).text
      const [, file] = / -o '(\S+)' /.exec(download)
      assert.match(file, /^([A-Za-z0-9][A-Za-z0-9._-]*)\.download\/\1$/)
      // The folders of some have the same name, which stops a second download.
      const made = join(file, '..')
      expected.push('curl', '--globoff', '--fail', '--location', '-o', file, '--', url)
      for (const source of [file, path]) expected.push('espalier', 'show', '--', source, path, 'espalier', 'stats', '--', source, escapePattern(path))
      return `${download}\n${shellOf(remote(url), path).text}\n${shellOf(local(path), path).text}\nrmdir ${made}\n`
    })
    const file = join(folder(), 'script')
    writeFileSync(file, script.join(''))
    const { left, stderr } = run(shell, [file], '', { PATH })
    assert.deepEqual(readFileSync(log, 'utf8').split('\0').slice(0, -1), expected, stderr)
    assert.deepEqual(left, [])
  })
}

test('the command line takes names for names that look like options', async () => {
  const names = ['--help', '-rf', '--', '[a]', '*', '--json']
  const home = folder()
  writeFileSync(join(home, '-x.espalier'), await write(new Map(names.map((name) => [name, new Uint8Array(2)]))))
  for (const name of names) {
    const { status, stdout, stderr } = spawnSync('/bin/sh', ['-c', shellOf(local('-x.espalier'), name).text], { cwd: home, env: { PATH: dirname(native) }, encoding: 'utf8' })
    assert.equal(status, 0, stderr)
    // The output of `show`, then the table of `stats`, whose last column is the name.
    assert.match(stdout, /^tensor u8 \[2\] [^]*\ndtype [^]*\nu8 /)
    assert.ok(stdout.endsWith(`  ${name}\n`), stdout)
  }
})

test('curl writes where the other commands read, and nowhere else', async (t) => {
  const server = createServer((request, response) => void (request.url.endsWith('gone') ? response.writeHead(404).end('none') : response.end(`served ${request.url}`)))
  await once(server.listen(0, '127.0.0.1'), 'listening')
  t.after(() => server.close())
  const origin = `http://127.0.0.1:${server.address().port}`
  const PATH = programs(join(folder(), 'log'), { espalier: 'cat "$3"' })
  const home = () => {
    const name = folder()
    for (const inner of ['.ssh', 'old.download']) mkdirSync(join(name, inner))
    return name
  }
  const runIn = async (cwd, { text }) => {
    const child = spawn('sh', ['-c', text], { cwd, env: { PATH, HOME: cwd } })
    let out = ''
    child.stdout.on('data', (data) => (out += data))
    const [status] = await once(child, 'close')
    return { out, status }
  }
  const filesIn = (cwd) => readdirSync(cwd, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath ?? entry.path, entry.name).slice(cwd.length + 1))
  for (const [path, name] of [
    ['/run.espalier', 'run.espalier'], ['/{.ssh/authorized_keys}', 'authorized_keys'], ['/%23%31', '1'], ['/[1-2]', '1-2'], ['/.bashrc', 'bashrc'], ['/-K', 'K'],
    ['/%2e%2e%2f.ssh%2fauthorized_keys', 'ssh_authorized_keys'], ['/', 'checkpoint'],
  ]) {
    const cwd = home()
    assert.deepEqual(await runIn(cwd, downloadOf(origin + path)), { out: '', status: 0 })
    assert.deepEqual(filesIn(cwd), [`${name}.download/${name}`])
    // One download serves all later uses.
    for (let use = 0; use < 2; use++) assert.deepEqual(await runIn(cwd, shellOf(remote(origin + path), 'w')), { out: `served ${path}`.repeat(2), status: 0 })
  }
  const cwd = home()
  writeFileSync(join(cwd, 'old.download', 'old'), 'kept')
  writeFileSync(join(cwd, 'old'), 'kept')
  assert.notEqual((await runIn(cwd, downloadOf(`${origin}/old`))).status, 0)
  // Nor is the error page of a server saved as a file.
  assert.notEqual((await runIn(cwd, downloadOf(`${origin}/gone`))).status, 0)
  assert.deepEqual(filesIn(cwd).map((name) => [name, readFileSync(join(cwd, name), 'utf8')]).sort(), [['old', 'kept'], ['old.download/old', 'kept']])
})
