// Gives the tests, which run in the page by way of the browser's debugger, what they call.
import * as espalier from '../../../dist/index.js'
import { describe, sha256 } from './describe.js'
import { failure } from './failure.js'
import { treeOf } from './tree.js'

Object.assign(globalThis, {
  espalier, describe, failure, sha256, treeOf, file: () => document.querySelector('#file').files[0],
})
