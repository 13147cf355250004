// The contents of the grid, row by row.
import type { Node, Totals } from 'espalier'
import type { OpenFile } from '../data/open-file'
import { partClass } from '../ui/families'
import type { HashState } from '../verify/hash-states'
import { formatBytes, formatCount, formatExact, formatShape } from '../ui/format'
import { visible } from '../ui/visible'

/** The contents of a row. */
export interface RowText {
  readonly name: string
  readonly path: string
  /** The text after the name: a value, a count, or how the sizes of equal layers add up. */
  readonly note: string
  readonly kind: 'container' | 'tensor' | 'value'
  /** Whether it stands for several layers. */
  readonly isRun: boolean
  /** The class of a part of the state, such as the optimizer; '' for other rows. */
  readonly part: string
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
  /** The node that a row shows. */
  node(row: number): number
  /** The item whose row shows a node. */
  itemOf(node: number): number
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

  node(row: number): number {
    return this.#file.arrangement.nodeOf(this.item(row))
  }

  itemOf(node: number): number {
    const { arrangement, rows } = this.#file
    const item = arrangement.itemOf(node)
    // A closed run shows its first layer.
    const around = arrangement.parent(item)
    return around !== undefined && arrangement.run(around)?.members[0] === arrangement.chain(item)[0] && !rows.isOpen(around) ? around : item
  }

  level(row: number): number {
    return this.#file.rows.level(row)
  }

  isOpen(row: number): boolean | undefined {
    const item = this.item(row)
    return this.#file.arrangement.count(item) > 0 ? this.#file.rows.isOpen(item) : undefined
  }

  place(row: number): { position: number; count: number } {
    const { arrangement } = this.#file
    const item = this.item(row)
    const parent = arrangement.parent(item)
    return { position: arrangement.position(item), count: parent === undefined ? arrangement.tops.length : arrangement.count(parent) }
  }

  text(row: number): RowText {
    const item = this.item(row)
    const { arrangement, outline, hashes } = this.#file
    const run = arrangement.run(item)
    const text = describe(this.#file, this.node(row), this.name(row), this.level(row) === 1 ? partClass(this.name(row)) : '')
    if (!run) return text
    const { members } = run
    const one = outline.totals(members[0]!)
    const totals = outline.totalsOf(members)
    const states = new Set(Array.from(members, (member) => hashes.of(member)))
    return {
      ...text,
      isRun: true,
      dtype: '',
      path: `${text.path} and ${formatExact(members.length - 1)} more of equal structure`,
      // Tied tensors count once, so the sum may be less.
      note: `${formatExact(members.length)} × ${formatBytes(one.bytes)} ${totals.bytes === members.length * one.bytes ? '=' : '≥'} ${formatBytes(totals.bytes)}`,
      ...sizes(totals, outline.totals(outline.tops[0]!).stored),
      hash: states.has('bad') ? 'bad' : states.size === 1 ? text.hash : 'unchecked',
    }
  }

  name(row: number): string {
    const { arrangement, outline } = this.#file
    const item = this.item(row)
    const members = arrangement.run(item)?.members
    if (members) return `${outline.name(members[0]!)} to ${outline.name(members.at(-1)!)}`
    return arrangement.chain(item).map((node) => (outline.needsQuotes(node) ? `"${outline.name(node)}"` : outline.name(node))).join('/')
  }
}

/** What a row of a node says. @param part its class as a part of the state, or '' */
export function describe(file: OpenFile, id: number, name: string, part: string): RowText {
  const { outline, hashes } = file
  const node = outline.node(id)
  const { tensor } = node
  const isContainer = node.size > 0
  const all = isContainer || tensor ? outline.totals(id) : undefined
  // A container of values has no sizes.
  const totals = tensor || all?.tensors ? all : undefined
  return {
    name: visible(name),
    path: visible(node.path),
    note: isContainer ? formatCount(totals?.tensors ?? node.size) : preview(node),
    kind: isContainer ? 'container' : tensor ? 'tensor' : 'value',
    isRun: false,
    part,
    dtype: tensor?.dtype ?? node.kind,
    shape: tensor ? formatShape(tensor.shape) : '',
    ...sizes(totals && tensor ? { ...totals, elements: tensor.elements } : totals, outline.totals(outline.tops[0]!).stored),
    ...(tensor?.isPlaceholder ? { bytes: 'placeholder', stored: '' } : {}),
    hash: totals?.tensors && !tensor?.isPlaceholder ? hashes.of(id) : 'none',
  }
}

/** The columns of sizes. @param all stored bytes of the file */
function sizes(totals: Totals | undefined, all: number): Pick<RowText, 'elements' | 'exactElements' | 'bytes' | 'stored' | 'share'> {
  if (!totals) return { elements: '', exactElements: '', bytes: '', stored: '', share: undefined }
  return {
    elements: formatCount(totals.elements),
    exactElements: formatExact(totals.elements),
    bytes: formatBytes(totals.bytes),
    stored: formatBytes(totals.stored),
    share: all > 0 ? totals.stored / all : 0,
  }
}

/** Characters of a value. */
const MOST_SHOWN = 80

function numberText(number: number): string {
  return Object.is(number, -0) ? '-0' : String(number)
}

function preview(node: Node): string {
  // A row is drawn often, and a value may have many MiB.
  const { value, bytes } = node.valueHead(4 * MOST_SHOWN)
  if (value === undefined) return bytes > 0 ? `an integer of ${formatBytes(bytes)}` : ''
  if (typeof value === 'string') return visible(JSON.stringify(value.slice(0, MOST_SHOWN))) + (value.length > MOST_SHOWN ? ' …' : '')
  if (value instanceof Uint8Array) return formatBytes(bytes)
  if (typeof value === 'object' && value !== null) {
    const { re, im } = value as { re: number; im: number }
    return `${numberText(re)} + ${numberText(im)}i`
  }
  const text = typeof value === 'number' ? numberText(value) : String(value)
  return text.length > MOST_SHOWN ? `${text.slice(0, MOST_SHOWN)}… (${text.length} characters)` : text
}
