import assert from 'node:assert/strict'
import { mkdtemp, open, rm, truncate, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { inspect } from 'node:util'
import { after, before, describe, it } from 'node:test'
import { EspalierError, errorFromCode, FileChangedError, HashMismatchError, RangeNotSupportedError, type ErrorCode } from '../src/errors.js'
import { asSource, type SourceInput } from '../src/source/as-source.js'
import { BlobSource } from '../src/source/blob-source.js'
import { BytesSource } from '../src/source/bytes-source.js'
import { FileHandleSource, type FileHandleLike } from '../src/source/file-handle-source.js'
import { HttpSource } from '../src/source/http-source.js'
import { someBytes } from './support/adversarial-server.js'
import { FakeSource } from './support/fake-source.js'

const file = someBytes(10_000)
const hasCode = (code: string) => (error: unknown) => error instanceof EspalierError && error.code === code

let folder: string
before(async () => (folder = await mkdtemp(join(tmpdir(), 'espalier-'))))
after(() => rm(folder, { recursive: true }))

async function onDisk(name: string, bytes: Uint8Array): Promise<string> {
  const path = join(folder, name)
  await writeFile(path, bytes)
  return path
}

describe('Every source', () => {
  const kinds: Record<string, () => Promise<SourceInput>> = {
    ArrayBuffer: async () => file.slice().buffer,
    SharedArrayBuffer: async () => {
      const shared = new Uint8Array(new SharedArrayBuffer(file.length))
      shared.set(file)
      return shared.buffer
    },
    Uint8Array: async () => new Uint8Array([1, ...file, 1]).subarray(1, 1 + file.length),
    DataView: async () => new DataView(file.slice().buffer),
    Blob: async () => new Blob([file.slice()]),
    FileHandle: async () => open(await onDisk('right', file)),
  }
  for (const [name, make] of Object.entries(kinds)) {
    it(`reads: ${name}`, async () => {
      const input = await make()
      const source = asSource(input)
      assert.equal(await source.size(), file.length)
      assert.deepEqual(await source.read(0, file.length), file)
      assert.deepEqual(await source.read(9_990, 10), file.subarray(9_990))
      assert.equal((await source.read(10_000, 0)).length, 0)
      await assert.rejects(async () => source.read(9_991, 10), hasCode('truncated'))
      await assert.rejects(async () => source.read(-1, 1), hasCode('invalid_argument'))
      await assert.rejects(async () => source.read(NaN, 1), hasCode('invalid_argument'))
      await assert.rejects(async () => source.read(0, 1.5), hasCode('invalid_argument'))
      await assert.rejects(async () => source.read(0, 1, AbortSignal.abort(new Error('enough'))), /enough/)
      await assert.rejects(async () => source.size(AbortSignal.abort(new Error('enough'))), /enough/)
      if (source instanceof FileHandleSource) await (input as { close(): Promise<void> }).close()
    })
  }
})

describe('asSource', () => {
  it('takes each input for what it is', () => {
    assert.ok(asSource('http://127.0.0.1/x') instanceof HttpSource)
    assert.ok(asSource(new URL('https://127.0.0.1/x')) instanceof HttpSource)
    assert.ok(asSource(new Blob([])) instanceof BlobSource)
    assert.ok(asSource(new ArrayBuffer(1)) instanceof BytesSource)
    const own = new FakeSource(1)
    assert.equal(asSource(own), own)
  })

  for (const input of [null, undefined, 5, {}, { size: 5 }, []]) {
    it(`refuses ${JSON.stringify(input)}`, () => {
      assert.throws(() => asSource(input as unknown as SourceInput), hasCode('invalid_argument'))
    })
  }
})

describe('BytesSource', () => {
  it('copies nothing', async () => {
    assert.equal((await new BytesSource(file).read(5, 5)).buffer, file.buffer)
  })
})

describe('BlobSource', () => {
  function failing(error: unknown): Blob {
    const slice = () => ({ arrayBuffer: () => Promise.reject(error) })
    return { size: 10, name: 'mine.espalier', slice, arrayBuffer: slice } as unknown as Blob
  }

  for (const name of ['NotReadableError', 'NotFoundError']) {
    it(`takes ${name} for a change`, async () => {
      const cause = new DOMException('no', name)
      await assert.rejects(new BlobSource(failing(cause)).read(2, 1), (error) => {
        return error instanceof FileChangedError && error.offset === 2 && error.cause === cause && /mine\.espalier/.test(error.message)
      })
    })
  }

  it('takes another failure for what it is', async () => {
    await assert.rejects(new BlobSource(failing(new Error('x'))).read(0, 1), hasCode('io_error'))
  })

  it('takes too few bytes for a change', async () => {
    const blob = { size: 10, slice: () => new Blob(['ab']) } as unknown as Blob
    await assert.rejects(new BlobSource(blob).read(0, 3), FileChangedError)
  })
})

describe('FileHandleSource', () => {
  it('goes on after short reads', async () => {
    const lengths: number[] = []
    const handle = {
      stat: async () => ({ size: file.length }),
      read: async (buffer: Uint8Array, offset: number, length: number, position: number) => {
        lengths.push(length)
        const bytesRead = Math.min(length, 4000)
        buffer.set(file.subarray(position, position + bytesRead), offset)
        return { bytesRead }
      },
    }
    assert.deepEqual(await new FileHandleSource(handle).read(1, 9999), file.subarray(1))
    assert.deepEqual(lengths, [9999, 5999, 1999])
  })

  for (const given of [5, null, undefined, {}, { bytesRead: -1 }, { bytesRead: 11 }, { bytesRead: 0.5 }, { bytesRead: '3' }, { bytesRead: 3n }, { bytesRead: NaN }]) {
    it(`refuses a handle of which read() gives ${inspect(given)}`, async () => {
      const handle = { stat: async () => ({ size: 10 }), read: async () => given }
      await assert.rejects(new FileHandleSource(handle as unknown as FileHandleLike).read(0, 10), hasCode('invalid_argument'))
    })
  }

  it('reads a file that has a place, as those of Deno', async () => {
    let place = 0
    const denoFile = {
      stat: async () => ({ size: file.length }),
      seek: async (offset: number, whence: number) => {
        assert.equal(whence, 0)
        await new Promise((resolve) => setImmediate(resolve))
        return (place = offset)
      },
      read: async (buffer: Uint8Array) => {
        await new Promise((resolve) => setImmediate(resolve))
        const bytesRead = Math.min(buffer.length, 3000, file.length - place)
        buffer.set(file.subarray(place, place + bytesRead))
        place += bytesRead
        return bytesRead || null
      },
    }
    const source = asSource(denoFile)
    const reads = await Promise.all([source.read(1, 9999), source.read(5000, 10), source.read(0, 10_000)])
    assert.deepEqual(reads, [file.subarray(1), file.subarray(5000, 5010), file])
    const broken = asSource({ ...denoFile, seek: () => Promise.reject(new Error('EIO')) })
    await assert.rejects(async () => broken.read(0, 5), hasCode('io_error'))
    const odd = asSource({ ...denoFile, read: async () => 11_000 })
    await assert.rejects(async () => odd.read(0, 5), hasCode('invalid_argument'))
  })

  it('notices a file that shrinks', async () => {
    const path = await onDisk('shrinks', file)
    const handle = await open(path)
    const source = new FileHandleSource(handle)
    assert.equal(await source.size(), 10_000)
    await truncate(path, 5000)
    assert.equal(await source.size(), 10_000)
    assert.deepEqual(await source.read(0, 5000), file.subarray(0, 5000))
    await assert.rejects(source.read(4000, 2000), (error) => error instanceof FileChangedError && error.offset === 5000)
    await handle.close()
  })

  it('reads beyond 4 GiB', async () => {
    const path = await onDisk('sparse', new Uint8Array(0))
    const handle = await open(path, 'r+')
    const far = 2 ** 32 + 12_345
    await handle.write(file, 0, 100, far)
    const source = new FileHandleSource(handle)
    assert.equal(await source.size(), far + 100)
    assert.deepEqual(await source.read(far, 100), file.subarray(0, 100))
    await handle.close()
    await truncate(path, 0)
  })

  it('says io_error when the system fails, and tries stat again', async () => {
    let calls = 0
    const handle = {
      stat: () => (calls++ ? Promise.resolve({ size: 5 }) : Promise.reject(new Error('EIO'))),
      read: () => Promise.reject(new Error('EIO')),
    }
    const source = new FileHandleSource(handle)
    await assert.rejects(source.size(), hasCode('io_error'))
    assert.equal(await source.size(), 5)
    await assert.rejects(source.read(0, 1), hasCode('io_error'))
  })
})

describe('errorFromCode', () => {
  it('picks the class', () => {
    const classes = { range_not_supported: RangeNotSupportedError, file_changed: FileChangedError, chunk_corrupt: HashMismatchError, index_invalid: EspalierError }
    for (const [code, type] of Object.entries(classes) as [ErrorCode, (typeof classes)[keyof typeof classes]][]) {
      const error = errorFromCode(code, 'what', { offset: 5n, path: 'a/b', file: 'c' })
      assert.equal(error.constructor, type)
      assert.equal(error.name, type.name)
      assert.deepEqual([error.code, error.message, error.offset, error.path, error.file], [code, 'what', 5n, 'a/b', 'c'])
      assert.ok(error instanceof EspalierError && error instanceof Error)
      assert.ok(!('cause' in error))
    }
  })
})
