// Controls for the shown part of a tensor.
import { useId } from 'preact/hooks'
import { formatExact } from '../ui/format.js'
import { visible } from '../ui/visible.js'
import type { Layout } from './layout.js'
import { lengthOf, withAxis, type View } from './view.js'

/** Two axes, and an index for each of the others. */
export function ViewPicker({ layout, axisNames, view, onView }: {
  layout: Layout
  axisNames: readonly string[] | undefined
  view: View
  onView: (view: View) => void
}) {
  const id = useId()
  const axes = layout.shape.map((_, axis) => axis)
  if (axes.length <= 2 && view.row < 0) return null
  const name = (axis: number): string => {
    const given = axisNames?.[axis]
    return `${axis}${given ? ` ${visible(given)}` : ''} (${formatExact(lengthOf(layout, axis))})`
  }
  const pick = (side: 'row' | 'column', label: string) => (
    <label>
      {label} <select value={view[side]} onChange={(event) => onView(withAxis(view, side, Number(event.currentTarget.value)))}>
        {axes.map((axis) => <option key={axis} value={axis}>axis {name(axis)}</option>)}
      </select>
    </label>
  )
  return (
    <div class="tensor-controls" role="group" aria-label="Which part is shown">
      {pick('row', 'Down')}
      {pick('column', 'Across')}
      {axes.filter((axis) => axis !== view.row && axis !== view.column).map((axis) => {
        const last = layout.shape[axis]! - 1
        const set = (value: number): void => {
          if (!Number.isInteger(value)) return
          onView({ ...view, fixed: view.fixed.map((index, i) => (i === axis ? Math.min(Math.max(value, 0), last) : index)) })
        }
        return (
          <span key={axis} class="tensor-fixed">
            <label for={`${id}-${axis}`}>Axis {name(axis)}</label>
            <input
              type="range" aria-label={`Index of axis ${axis}`} min={0} max={last} value={view.fixed[axis]}
              onInput={(event) => set(event.currentTarget.valueAsNumber)}
            />
            <input
              id={`${id}-${axis}`} type="number" min={0} max={last} value={view.fixed[axis]}
              onChange={(event) => set(event.currentTarget.valueAsNumber)}
            />
          </span>
        )
      })}
    </div>
  )
}
