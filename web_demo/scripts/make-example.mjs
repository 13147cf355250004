// Makes public/example.espalier, which the page shows on a first visit: node scripts/make-example.mjs
// ESPALIER is the command line program, by default that of the release build.
import { execFileSync } from 'node:child_process'
import { statSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

const path = (name) => fileURLToPath(new URL(name, import.meta.url))
const program = process.env.ESPALIER ?? path('../../build/release/espalier')
const from = path('../../tests/data/digits/digits.safetensors')
const to = path('../public/example.espalier')

execFileSync(program, ['convert', from, to, '--nest', '--compress=9', '--force'], { stdio: 'inherit' })
const { size } = statSync(to)
if (size >= 400_000) throw new Error(`${to} has ${size} bytes, which is too much for a page to begin with`)
