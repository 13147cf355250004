// The worker's part of opening a tree for the main thread.
import { Core } from '../core/core.js'
import { Opening, type OpeningState } from '../core/opening.js'
import { errorFromCode } from '../errors.js'
import type { Call, OpenedTree } from './protocol.js'

/** The calls that it answers. */
export type OpeningCall = Extract<Call, { op: 'begin' | 'answer' | 'feed' | 'finish' | 'memory' }>

/** One opening. The last piece of its memory ends it. */
export class TreeOpening {
  #opening: Opening | undefined

  async run(call: OpeningCall, transfer: ArrayBuffer[]): Promise<OpeningState | OpenedTree | Uint8Array> {
    if (call.op === 'begin') {
      const core = await Core.load(call.module, 'espalier_open')
      this.#opening = new Opening(core, call.options)
    }
    const opening = this.#opening
    if (!opening) throw errorFromCode('invalid_argument', 'there is no opening')
    if (call.op === 'memory') {
      const piece = opening.core.bytes.slice(call.begin, call.end)
      transfer.push(piece.buffer as ArrayBuffer)
      if (call.end >= opening.core.memoryBytes) this.#opening = undefined
      return piece
    }
    if (call.op === 'finish') {
      const ended = opening.end()
      return { ...ended, core: opening.core.state }
    }
    if (call.op === 'answer') opening.answer(call.file, call.answer)
    else if (call.op === 'feed') opening.feed(call.file, call.offset, call.bytes)
    return opening.state()
  }
}
