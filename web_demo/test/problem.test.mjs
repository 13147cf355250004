// What the page advises after a failure.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { EspalierError } from 'espalier'
import { ERROR_CODES } from '../../wasm/dist/core/names.js'
import { problemOf } from '../build/open/problem.js'

test('only what a reload mends advises one', () => {
  for (const code of Object.values(ERROR_CODES)) {
    const { advice } = problemOf(new EspalierError(code, 'x'))
    assert.ok(advice !== '' && !advice.includes('Reload'), `${code}: ${advice}`)
  }
  assert.match(problemOf(new EspalierError('worker_failed', 'x')).advice, /Reload/)
  const pickle = problemOf(new EspalierError('foreign_invalid', 'loading it with pickle would call posix.system; nothing was run'))
  assert.match(pickle.advice, /Do not load it/)
})
