// Checkpoints that are folders, which Orbax and TensorFlow made: dropped, chosen, and by address.
import assert from 'node:assert/strict'
import { cpSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { choose, drop, inEachBrowser, press, rows, said, tree, violations } from './support/page.mjs'
import { testFiles } from './support/site.mjs'
import { unpackOrbax } from '../support/orbax.mjs'

let place
before(() => {
  place = mkdtempSync(join(tmpdir(), 'espalier-folders-'))
  unpackOrbax(place)
  cpSync(join(testFiles, 'foreign/tensorflow/files/saved_model.tensorflow'), join(place, 'export'), { recursive: true })
  writeFileSync(join(place, 'export/saved_model.pb'), 'a program, which is never read')
})
after(() => rmSync(place, { recursive: true }))

const current = (page, name) => said(page, '.files .is-current button:first-child', new RegExp(`^${name}$`))
const openNames = (page) => page.$$eval('.files li button:first-child', (list) => list.map((button) => button.textContent))

/** The least and the largest element of a tensor, as the pane has them. */
async function range(page, name) {
  await choose(page, name)
  await page.waitForSelector('.tensor-numbers dd')
  return page.$$eval('.tensor-numbers > div', (list) => list.filter((row) => /^M(in|ax)$/.test(row.querySelector('dt').textContent)).map((row) => Number(row.querySelector('dd').title)))
}

/** Drops files and folders of this machine on the page. Only Chrome lets a test do that. */
async function dropPaths(page, paths) {
  const devtools = await page.createCDPSession()
  for (const type of ['dragEnter', 'dragOver', 'drop']) {
    await devtools.send('Input.dispatchDragEvent', { type, x: 300, y: 300, data: { items: [], files: paths, dragOperationsMask: 1 } })
  }
  await devtools.detach()
}

inEachBrowser((kind, browser) => {
  /** Has the site serve the files of a folder, below an address. */
  const serve = (folder, at) => {
    for (const entry of readdirSync(folder, { recursive: true, withFileTypes: true })) {
      if (!entry.isFile()) continue
      const path = join(entry.parentPath ?? entry.path, entry.name)
      browser.site.made.set(at + path.slice(folder.length), readFileSync(path))
    }
  }

  if (kind === 'chrome') {
    const visit = async () => {
      const page = await browser.visit('#url=example.espalier')
      await tree(page)
      return page
    }
    const end = async (page) => {
      assert.deepEqual(page.faults, [])
      await page.close()
    }

    test('the folder of a step of Orbax is dropped, and its arrays are read', async () => {
      const page = await visit()
      await dropPaths(page, [join(place, 'manager/10')])
      await current(page, '10')
      await said(page, 'body', /orbax, without hashes/)
      assert.ok((await rows(page)).includes('-w'))
      assert.deepEqual(await range(page, 'w'), [10, 10])
      assert.equal(await page.evaluate(() => location.hash), '#url=example.espalier', 'no link can name a folder of this machine')
      await end(page)
    })

    test('items, chunks in files of processes, and the plain layout', async () => {
      const page = await visit()
      for (const [path, title, key] of [['items/1', '1', 'params'], ['chunks_z3', 'chunks_z3', undefined], ['plain_z2', 'plain_z2', 'bf'], ['v1_checkpoints/composite_checkpoint/checkpoint_metadata_present/pytree_checkpointable_has_metadata', 'pytree_checkpointable_has_metadata', 'a']]) {
        await dropPaths(page, [join(place, path)])
        await current(page, title)
        if (key) assert.ok((await rows(page)).includes(`-${key}`), `${path}: ${await rows(page)}`)
        assert.equal(await page.$('[role=alert]'), null, path)
      }
      await end(page)
    })

    test('of a CheckpointManager the newest step opens, and the others are chosen in the run', async () => {
      const page = await visit()
      await dropPaths(page, [join(place, 'manager')])
      await current(page, 'manager/10')
      assert.deepEqual(await openNames(page), ['Run manager', 'example.espalier', 'manager/10'])
      await press(page, 'Run manager')
      await said(page, '.run-bar', /10.*10\/_CHECKPOINT_METADATA, [\d.]+ KiB; 2 of 2/)
      await press(page, 'Compare with step 5')
      await current(page, 'manager/10')
      assert.deepEqual((await openNames(page)).slice(-2), ['manager/5', 'manager/10'])
      await page.click('.files li:nth-last-child(2) button')
      await current(page, 'manager/5')
      await press(page, 'Tensors').catch(() => {})
      assert.deepEqual(await violations(page), [])
      await end(page)
    })

    test('a step by its own folder, and the content of one that is dropped by itself', async () => {
      const page = await visit()
      await dropPaths(page, [join(place, 'manager/5')])
      await current(page, '5')
      assert.deepEqual(await range(page, 'w'), [5, 5])
      await dropPaths(page, readdirSync(join(place, 'manager/10')).map((name) => join(place, 'manager/10', name)))
      await current(page, '_CHECKPOINT_METADATA')
      assert.deepEqual(await range(page, 'w'), [10, 10])
      assert.deepEqual((await openNames(page)).length, 3)
      await end(page)
    })

    test('folders are chosen: a SavedModel, and a step of Orbax', async () => {
      const page = await visit()
      const picker = await page.$('input[aria-label="Folder of a checkpoint"]')
      await picker.uploadFile(join(place, 'export'))
      await current(page, 'export')
      await said(page, 'body', /tensorflow, without hashes/)
      assert.ok((await rows(page)).includes('-trainable_variables'))
      await picker.uploadFile(join(place, 'manager/10'))
      await current(page, '10')
      assert.deepEqual(await range(page, 'w'), [10, 10])
      await end(page)
    })

    test('unfinished and wrong folders: the sentence of the command line, and the page goes on', async () => {
      const page = await visit()
      const wrong = join(place, 'wrong')
      cpSync(join(place, 'manager/10'), join(wrong, 'run/10.orbax-checkpoint-tmp-7'), { recursive: true })
      cpSync(join(place, 'export'), join(wrong, 'model'), { recursive: true })
      rmSync(join(wrong, 'model/variables'), { recursive: true })
      cpSync(join(place, 'unfinished'), join(wrong, 'killed'), { recursive: true })
      cpSync(join(place, 'manager/10'), join(wrong, 'lost'), { recursive: true })
      rmSync(join(wrong, 'lost/default/d'), { recursive: true })
      mkdirSync(join(wrong, 'nothing'))
      writeFileSync(join(wrong, 'nothing/README.md'), 'no checkpoint')
      for (const [name, message] of [
        ['run', /no save has finished.*not_a_regular_file.*What to do/],
        ['run/10.orbax-checkpoint-tmp-7', /save of Orbax that has not finished/],
        ['model', /SavedModel of TensorFlow without variables/],
        ['killed', /the save did not finish: its processes wrote their arrays.*foreign_invalid/],
        ['lost', /a node of the OCDBT database lies in it/],
        ['nothing', /this is a folder; a checkpoint is one file/],
      ]) {
        await dropPaths(page, [join(wrong, name)])
        await said(page, '[role=alert]', message)
        await press(page, 'Dismiss')
        await page.waitForFunction(() => !document.querySelector('[role=alert]'))
      }
      await dropPaths(page, [join(wrong, 'run')])
      await said(page, '[role=alert]', /no save has finished/)
      await press(page, 'Try again')
      await said(page, '[role=alert]', /no save has finished/)
      // A folder that opens takes the message away.
      await dropPaths(page, [join(place, 'manager/10')])
      await current(page, '10')
      assert.equal(await page.$('[role=alert]'), null)
      await end(page)
    })
  }

  test('an ONNX model and its external data are dropped, and are one checkpoint', async () => {
    const page = await browser.visit('#url=example.espalier')
    await tree(page)
    const bytes = (name) => [name, readFileSync(join(testFiles, 'foreign/onnx', name))]
    // In this order, the page comes to the data first.
    await drop(page, [bytes('external.bin'), bytes('external.onnx')])
    await current(page, 'external\\.onnx')
    await said(page, 'body', /onnx, without hashes/)
    assert.deepEqual(await openNames(page), ['example.espalier', 'external.onnx'])
    assert.equal(await page.$('[role=alert]'), null)
    await said(page, '.further-files', /external\.bin.*here/)
    assert.deepEqual(page.faults, [])
    await page.close()
  })

  test('a checkpoint of Orbax opens from the address of a file in it, and of its folder', async () => {
    serve(join(place, 'manager/10'), '/run/10')
    for (const [address, title] of [['run/10/_CHECKPOINT_METADATA', '10/_CHECKPOINT_METADATA'], ['run/10/default/_METADATA', 'default/_METADATA'], ['run/10/default/manifest.ocdbt', 'default/manifest\\.ocdbt'], ['run/10/', '10/_CHECKPOINT_METADATA']]) {
      browser.site.requests.length = 0
      const page = await browser.visit(`#url=${address}&key=w`)
      await tree(page)
      await current(page, title)
      assert.deepEqual(await range(page, 'w'), [10, 10], address)
      assert.deepEqual(browser.site.requests.filter((request) => /^\/run\/(?!10\/)/.test(request)), [])
      assert.deepEqual(page.faults, [])
      await page.close()
    }
  })

  test('a SavedModel opens from the address of its folder', async () => {
    serve(join(place, 'export'), '/export')
    const page = await browser.visit('#url=export/')
    await tree(page)
    await said(page, 'body', /tensorflow, without hashes/)
    await page.waitForFunction(() => location.hash === '#url=export/variables/variables.index')
    assert.equal(browser.site.requests.some((request) => request.includes('saved_model.pb')), false)
    assert.deepEqual(page.faults, [])
    await page.close()
  })

  test('the address of a folder of steps: the page says that servers do not list folders', async () => {
    serve(join(place, 'manager/10'), '/run/10')
    const page = await browser.visit('#url=run/')
    await said(page, '[role=alert]', /servers do not say what else is in a folder: give the address of one step.*file_not_found/)
    assert.deepEqual(page.faults, [])
    await page.close()
  })
})
