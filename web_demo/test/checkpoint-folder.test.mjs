import assert from 'node:assert/strict'
import { execFileSync, spawnSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, dirname, join } from 'node:path'
import { after, before, test } from 'node:test'
import { FolderTree, placesIn } from '../build/open/checkpoint-folder.js'
import { asOneFolder, contentsOf } from '../build/open/folders.js'
import { native } from './support/native.mjs'
import { unpackOrbax } from './support/orbax.mjs'

const tree = (name, paths) => new FolderTree(name, paths.map((path) => [path, new File([path], basename(path))]))
const found = (paths, name = 'run') => {
  const { newest, all, problem } = placesIn(tree(name, paths))
  const files = (places) => places.flatMap(({ folder, names }) => names.map((one) => folder + one))
  return { newest: files(newest), ...(all.length > newest.length && { all: files(all) }), ...(problem && { problem }) }
}

let place
before(() => {
  place = mkdtempSync(join(tmpdir(), 'espalier-folders-'))
})
after(() => rmSync(place, { recursive: true }))

/** What the command line says of an error. */
const saidBy = (path) => spawnSync(native, ['ls', path], { encoding: 'utf8' }).stderr

const item = (folder) => ['_METADATA', '_sharding', 'array_metadatas/process_0', 'd/0f', 'manifest.ocdbt', 'ocdbt.process_0/d/1e', 'ocdbt.process_0/manifest.ocdbt'].map((name) => folder + name)
const step = (folder) => [`${folder}_CHECKPOINT_METADATA`, `${folder}commit_success.txt`, ...item(`${folder}default/`)]

test('a folder of Orbax is one checkpoint, with all that is below it', () => {
  assert.deepEqual(found(step('')), { newest: ['_CHECKPOINT_METADATA'] })
  assert.deepEqual(found(item('')), { newest: ['_METADATA'] })
  assert.deepEqual(found(['manifest.ocdbt', 'd/0f']), { newest: ['manifest.ocdbt'] })
  assert.deepEqual(found([...step('a/'), ...step('b/'), 'c/model.pt']), { newest: ['a/_CHECKPOINT_METADATA', 'b/_CHECKPOINT_METADATA', 'c/model.pt'] })
})

test('of the steps of a CheckpointManager the newest opens, and the others are listed', () => {
  assert.deepEqual(found([...step('5/'), ...step('10/'), ...step('9/')]), {
    newest: ['10/_CHECKPOINT_METADATA'], all: ['10/_CHECKPOINT_METADATA', '5/_CHECKPOINT_METADATA', '9/_CHECKPOINT_METADATA'],
  })
  assert.deepEqual(found([...step('checkpoint_9/'), ...step('checkpoint_10/'), 'notes.txt']).newest, ['checkpoint_10/_CHECKPOINT_METADATA'])
  // No steps: any of them may be wanted.
  assert.equal(found([...step('v1/'), ...step('v2/')]).newest.length, 2)
  // A step that does not list its items.
  assert.deepEqual(found([...item('1/params/'), ...item('2/params/'), ...item('2/opt/')]), {
    newest: ['2/opt/_METADATA', '2/params/_METADATA'], all: ['1/params/_METADATA', '2/opt/_METADATA', '2/params/_METADATA'],
  })
  // One that is still being written.
  assert.deepEqual(found([...step('5/'), ...step('10.orbax-checkpoint-tmp-3/')]), { newest: ['5/_CHECKPOINT_METADATA'] })
})

test('arrays that _METADATA does not know are in `checkpoint` beside it', () => {
  assert.deepEqual(found(['_METADATA', 'checkpoint', 'd/0f', 'manifest.ocdbt']), { newest: ['checkpoint'] })
})

test('the file `checkpoint` of flax is one, and the text of TensorFlow is none', () => {
  assert.deepEqual(found(['checkpoint']), { newest: ['checkpoint'] })
  assert.deepEqual(found(['checkpoint_9/checkpoint', 'checkpoint_10/checkpoint']).newest, ['checkpoint_10/checkpoint'])
  assert.deepEqual(found(['checkpoint', 'm-1.index', 'm-1.data-00000-of-00001']), { newest: ['m-1.index'] })
})

test('a SavedModel is one checkpoint', () => {
  const files = ['saved_model.pb', 'fingerprint.pb', 'assets/table.npy', 'variables/variables.index', 'variables/variables.data-00000-of-00001']
  assert.deepEqual(found(files), { newest: ['variables/variables.index'] })
  assert.deepEqual(found(files.map((file) => `export/1/${file}`)), { newest: ['export/1/variables/variables.index'] })
})

test('other folders are as they were: each file in them that may be a checkpoint', () => {
  assert.deepEqual(found(['a.pt', 'README.md', 'b/c.safetensors', 'b/model.onnx', 'b/model.onnx_data', 'd/.metadata', 'd/__0_0.distcp']).newest, ['a.pt', 'b/c.safetensors', 'b/model.onnx', 'd/.metadata'])
  assert.deepEqual(found(['index.espalier', '__0_0.espalier']), { newest: ['index.espalier'] })
})

test('the files of a checkpoint are found by their names below it, and its folder is its name', () => {
  const { groups, all } = contentsOf({ name: 'run', files: [...step('5/'), ...step('10/')].map((path) => [path, new File([path], basename(path))]) })
  assert.deepEqual([groups.length, all.length], [1, 2])
  const [{ inputs, paths, beside }] = groups
  assert.deepEqual([inputs[0].name, paths, beside.title, beside.find('default/d/0f').name], ['_CHECKPOINT_METADATA', ['10/_CHECKPOINT_METADATA'], 'run/10', '0f'])
  assert.equal(beside.bytes, step('10/').join('').length)
  for (const name of ['../5/_CHECKPOINT_METADATA', '0f', 'default', '', '/default/d/0f']) assert.equal(beside.find(name), undefined, name)
})

test('the content of such a folder that is dropped by itself is one checkpoint', () => {
  const folder = (name, paths) => ({ name, files: paths.map((path) => [path, new File([path], basename(path))]) })
  const one = asOneFolder({ files: [new File([''], '_CHECKPOINT_METADATA')], handles: [], folders: [folder('default', item(''))] })
  assert.deepEqual(one.files.map(([path]) => path).slice(0, 2), ['_CHECKPOINT_METADATA', 'default/_METADATA'])
  assert.equal(contentsOf(one).groups[0].beside.title, undefined)
  assert.ok(asOneFolder({ files: [new File([''], 'saved_model.pb')], handles: [], folders: [folder('variables', ['variables.index'])] }))
  // Not what only lies together.
  assert.equal(asOneFolder({ files: [new File([''], 'a.pt')], handles: [], folders: [folder('default', item(''))] }), undefined)
  assert.equal(asOneFolder({ files: [], handles: [], folders: [folder('default', item(''))] }), undefined)
})

for (const [what, paths] of Object.entries({
  empty: [],
  'without a checkpoint': ['README.md'],
  'a SavedModel without variables': ['saved_model.pb'],
  'TensorFlow without an index': ['model.data-00000-of-00001'],
  'a distributed checkpoint without .metadata': ['__0_0.distcp'],
  'two checkpoints': ['index.espalier', '.metadata'],
  'a zarr store': ['zarr.json', 'a/zarr.json'],
  'an older zarr store': ['.zgroup', 'a/.zarray'],
  'Core ML': ['Manifest.json', 'Data/weights/weight.bin'],
  'no finished save': step('5.orbax-checkpoint-tmp-1/'),
  'x.orbax-checkpoint-tmp': step(''),
  'x.partial_save': step(''),
  'databases of processes alone': ['_sharding', 'ocdbt.process_0/d/0f', 'ocdbt.process_0/manifest.ocdbt', 'ocdbt.process_1/manifest.ocdbt'],
})) {
  test(`${what}: the page says what the command line says`, () => {
    const folder = join(place, what)
    mkdirSync(folder, { recursive: true })
    for (const path of paths) {
      mkdirSync(dirname(join(folder, path)), { recursive: true })
      writeFileSync(join(folder, path), path)
    }
    const { groups, problem } = contentsOf({ name: what, files: paths.map((path) => [path, new File([path], basename(path))]) })
    assert.deepEqual(groups, [])
    assert.equal(problem.name, what)
    const said = saidBy(folder)
    assert.ok(said.includes(`${problem.error.message} (code ${problem.error.code})`), `${problem.error.message}\n${said}`)
  })
}

test('the folders that Orbax and TensorFlow made: the same checkpoints as of the command line', () => {
  unpackOrbax(place)
  const savedModel = join(place, 'saved_model')
  execFileSync('cp', ['-r', new URL('../../tests/foreign/tensorflow/files/saved_model.tensorflow', import.meta.url).pathname, savedModel])
  writeFileSync(join(savedModel, 'saved_model.pb'), '')
  const folders = ['manager', 'manager/10', 'items', 'items/1/opt', 'z2', 'plain_z3', 'leaf', 'saved_model', 'v1_checkpoints/composite_checkpoint/checkpoint_metadata_present/pytree_checkpointable_has_metadata']
  for (const name of folders) {
    const folder = join(place, name)
    const files = readdirSync(folder, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath ?? entry.path, entry.name).slice(folder.length + 1))
    const { newest } = placesIn(tree(basename(folder), files))
    assert.equal(newest.length, 1, name)
    const opened = join(folder, newest[0].folder, newest[0].names[0])
    const listed = (path) => JSON.parse(execFileSync(native, ['ls', path, '--json'], { encoding: 'utf8' })).nodes
    assert.ok(readFileSync(opened).length > 0)
    assert.deepEqual(listed(opened), listed(folder), name)
  }
})
