// The rows of a filter's matches.
import type { OpenFile } from '../data/open-file'
import { partClass } from '../ui/families'
import { describe, type RowSource, type RowText } from './row-source'

/** The matches of a filter: a flat list. */
export class MatchRows implements RowSource {
  readonly #file: OpenFile
  readonly #itemAt: (row: number) => number

  constructor(file: OpenFile, readonly length: number, itemAt: (row: number) => number) {
    this.#file = file
    this.#itemAt = itemAt
  }

  item(row: number): number {
    return this.#itemAt(row)
  }

  node(row: number): number {
    return this.item(row)
  }

  itemOf(node: number): number {
    return node
  }

  level(): number {
    return 0
  }

  isOpen(): undefined {
    return undefined
  }

  place(row: number): { position: number; count: number } {
    return { position: row, count: this.length }
  }

  name(row: number): string {
    return this.#file.outline.node(this.item(row)).path || 'state'
  }

  text(row: number): RowText {
    const name = this.name(row)
    return describe(this.#file, this.item(row), name, partClass(name.split('/', 1)[0]!))
  }
}
