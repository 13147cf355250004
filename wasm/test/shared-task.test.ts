import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { orAborted } from '../src/source/abort.js'
import { SharedTask } from '../src/source/shared-task.js'

describe('orAborted', () => {
  it('rejects at once if the signal is aborted already', async () => {
    await assert.rejects(orAborted(new Promise(() => {}), AbortSignal.abort(new Error('enough'))), /enough/)
  })
})

describe('SharedTask', () => {
  for (const [name, outcome] of [
    ['done', () => Promise.resolve(5)],
    ['failed', () => Promise.reject(new Error('gone'))],
  ] as const) {
    it(`is not aborted once it is ${name}`, async () => {
      let seen: AbortSignal | undefined
      const task = new SharedTask<number>((signal) => {
        seen = signal
        return outcome()
      })
      await task.wait(undefined).catch(() => {})
      assert.equal(seen!.aborted, false)
      assert.equal(task.isDead, name === 'failed')
    })
  }

  it('is aborted when all have gone, however often they say so', async () => {
    let seen: AbortSignal | undefined
    const task = new SharedTask<void>((signal) => {
      seen = signal
      return new Promise(() => {})
    })
    const [a, b] = [task.join(), task.join()]
    a()
    a()
    assert.equal(seen!.aborted, false)
    b()
    assert.equal(seen!.aborted, true)
    assert.equal(task.isDead, true)
  })
})
