// The contents of the grid, row by row.
import type { OpenFile } from '../data/open-file'
import type { HashState } from '../verify/hash-states'
import { formatBytes, formatCount, formatExact, formatShape } from '../ui/format'
import { visible } from '../ui/visible'

/** The contents of a row. */
export interface RowText {
  readonly name: string
  readonly path: string
  /** The text after the name: a value, or a count. */
  readonly note: string
  readonly kind: 'container' | 'tensor' | 'value'
  readonly dtype: string
  readonly shape: string
  readonly elements: string
  readonly exactElements: string
  readonly bytes: string
  readonly stored: string
  /** Its share of the file's tensor bytes, from 0 to 1. */
  readonly share: number | undefined
  readonly hash: HashState
}

/** Rows and their relations. */
export interface RowSource {
  readonly length: number
  /** The item of a row. */
  item(row: number): number
  level(row: number): number
  /** Whether a container is expanded; undefined if there is nothing to expand. */
  isOpen(row: number): boolean | undefined
  /** The position among its siblings, and their number. */
  place(row: number): { readonly position: number; readonly count: number }
  text(row: number): RowText
  /** Only the name, which takes less time. */
  name(row: number): string
}

/** The tree. */
export class TreeRows implements RowSource {
  readonly #file: OpenFile

  constructor(file: OpenFile) {
    this.#file = file
  }

  get length(): number {
    return this.#file.rows.length
  }

  item(row: number): number {
    return this.#file.rows.item(row)
  }

  level(row: number): number {
    return this.#file.rows.level(row)
  }

  isOpen(row: number): boolean | undefined {
    const item = this.item(row)
    return this.#file.outline.node(item).size > 0 ? this.#file.rows.isOpen(item) : undefined
  }

  place(row: number): { position: number; count: number } {
    const { outline } = this.#file
    const item = this.item(row)
    const parent = outline.parent(item)
    return { position: outline.position(item), count: parent === undefined ? outline.tops.length : outline.count(parent) }
  }

  text(row: number): RowText {
    const item = this.item(row)
    const { outline } = this.#file
    const run = outline.runLength(item)
    const name = outline.name(item)
    return describe(this.#file, item, run > 1 ? `${name} to ${Number(name) + run - 1}` : outline.needsQuotes(item) ? `"${name}"` : name, run)
  }

  name(row: number): string {
    return this.#file.outline.name(this.item(row))
  }
}

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
    return this.#file.outline.node(this.item(row)).path
  }

  text(row: number): RowText {
    const item = this.item(row)
    return describe(this.#file, item, this.#file.outline.node(item).path || 'state', 1)
  }
}

function describe(file: OpenFile, item: number, name: string, run: number): RowText {
  const { outline, hashes } = file
  const node = outline.node(item)
  const { tensor } = node
  const isContainer = node.size > 0
  const hasBytes = isContainer || tensor
  const totals = hasBytes ? outline.totals(item) : undefined
  const all = outline.totals(outline.tops[0]!)
  const note = run > 1 ? `× ${formatExact(run)}` : isContainer && totals ? formatCount(totals.tensors) : preview(node.value)
  return {
    name: visible(name),
    path: visible(node.path),
    note,
    kind: isContainer ? 'container' : tensor ? 'tensor' : 'value',
    dtype: tensor?.dtype ?? node.kind,
    shape: tensor ? formatShape(tensor.shape) : '',
    elements: totals ? formatCount(tensor?.elements ?? totals.elements) : '',
    exactElements: totals ? formatExact(tensor?.elements ?? totals.elements) : '',
    bytes: tensor?.isPlaceholder ? 'placeholder' : totals ? formatBytes(totals.bytes) : '',
    stored: totals && !tensor?.isPlaceholder ? formatBytes(totals.stored) : '',
    share: totals ? (all.stored > 0 ? totals.stored / all.stored : 0) : undefined,
    hash: totals?.tensors && !tensor?.isPlaceholder ? hashes.of(item) : 'none',
  }
}

/** Characters of a value. */
const MOST_SHOWN = 80

function numberText(number: number): string {
  return Object.is(number, -0) ? '-0' : String(number)
}

function preview(value: unknown): string {
  if (value === undefined) return ''
  if (typeof value === 'string') return visible(JSON.stringify(value.slice(0, MOST_SHOWN))) + (value.length > MOST_SHOWN ? ' …' : '')
  if (value instanceof Uint8Array) return formatBytes(value.length)
  if (typeof value === 'object' && value !== null) {
    const { re, im } = value as { re: number; im: number }
    return `${numberText(re)} + ${numberText(im)}i`
  }
  const text = typeof value === 'number' ? numberText(value) : String(value)
  return text.length > MOST_SHOWN ? `${text.slice(0, MOST_SHOWN)}… (${text.length} characters)` : text
}
