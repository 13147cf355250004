// Draws the map.
import { formatBytes } from '../ui/format.js'
import { keyText } from './key-text.js'
import type { Cell } from './icicle-layout.js'

export const ROW = 28

/** Light enough for dark text in either scheme; distinguishable with colour blindness. */
const BRANCHES = ['#8ecae6', '#ffd08a', '#a8ddb5', '#f7b6c8', '#d3c4ec', '#e8e29a', '#f5b895', '#b7d3d3']
const INK = '#14181d'
const REST = '#c3c8ce'
const FOCUS = '#dfe3e8'

/** The marked cells. */
export interface Marks {
  readonly selected: number | undefined
  readonly active: Cell | undefined
}

/** Draws cells onto a canvas of `width` by `height` CSS pixels. @param offset rows above the focus */
export function draw(canvas: HTMLCanvasElement, cells: readonly Cell[], offset: number, width: number, height: number, marks: Marks): void {
  const context = canvas.getContext('2d')
  if (!context) return
  const density = globalThis.devicePixelRatio || 1
  const [w, h] = [Math.round(width * density), Math.round(height * density)]
  if (canvas.width !== w) canvas.width = w
  if (canvas.height !== h) canvas.height = h
  const style = getComputedStyle(canvas)
  context.setTransform(density, 0, 0, density, 0, 0)
  context.clearRect(0, 0, width, height)
  context.font = `12px ${style.fontFamily}`
  context.textBaseline = 'middle'
  const line = style.backgroundColor
  for (const cell of cells) {
    const y = (cell.depth + offset) * ROW
    const gap = cell.width > 3 ? 1 : 0
    context.fillStyle = cell.depth <= 0 ? FOCUS : cell.node ? BRANCHES[cell.branch % BRANCHES.length]! : REST
    context.fillRect(cell.x, y, Math.max(cell.width - gap, 0.5), ROW - 1)
    if (cell.depth % 2 === 0 && cell.depth > 0 && cell.node) {
      // Every other row is a little darker, to show the levels.
      context.fillStyle = 'rgb(0 0 0 / 7%)'
      context.fillRect(cell.x, y, Math.max(cell.width - gap, 0.5), ROW - 1)
    }
    if (cell.width >= 36) write(context, cell, y)
  }
  for (const cell of cells) {
    const isSelected = cell.node !== undefined && cell.node.id === marks.selected
    if (!isSelected && cell !== marks.active) continue
    const y = (cell.depth + offset) * ROW
    outline(context, cell, y, line, 5)
    outline(context, cell, y, isSelected ? style.color : INK, isSelected ? 3 : 2)
  }
}

function outline(context: CanvasRenderingContext2D, cell: Cell, y: number, colour: string, width: number): void {
  context.strokeStyle = colour
  context.lineWidth = width
  context.strokeRect(cell.x + 1.5, y + 1.5, Math.max(cell.width - 4, 1), ROW - 4)
}

function write(context: CanvasRenderingContext2D, cell: Cell, y: number): void {
  context.save()
  context.beginPath()
  context.rect(cell.x, y, cell.width - 4, ROW)
  context.clip()
  context.fillStyle = INK
  const name = cellName(cell)
  context.fillText(name, cell.x + 6, y + ROW / 2)
  const size = Number.isNaN(cell.size) ? '' : formatBytes(cell.size)
  const used = context.measureText(name).width + 14
  const wide = context.measureText(size).width
  if (used + wide + 6 < cell.width) {
    context.globalAlpha = 0.78
    context.fillText(size, cell.x + used, y + ROW / 2)
  }
  context.restore()
}

/** The key of a cell's node, or the number of nodes in it. */
export function cellName(cell: Cell): string {
  return cell.node ? keyText(cell.node) : `${cell.count.toLocaleString('en')} more`
}
