// What keys do, on the whole page: '/' goes to the filter, '?' shows this.
import { useEffect, useRef } from 'preact/hooks'
import './keys.css'

const KEYS: readonly (readonly [where: string, keys: readonly (readonly [keys: string, what: string])[]])[] = [
  ['Everywhere', [['/', 'filter the tree by name'], ['?', 'show these keys'], ['Tab', 'go on to the next part'], ['Alt ←, Alt →', 'go back, and forward again']]],
  ['Tree', [
    ['↑ ↓', 'go from row to row'], ['→ ←', 'expand or collapse, or go to the container'], ['Home, End, Page Up, Page Down', 'go far'],
    ['letters', 'go to a name that begins so'], ['*', 'expand all containers beside this one'], ['Enter', 'show the row at the right'],
  ]],
  ['Tabs', [['← →', 'choose the tab beside it'], ['Home, End', 'choose the first or the last one']]],
  ['Heatmap', [
    ['↑ ↓ ← →', 'go from cell to cell; with Shift, 16 at once'], ['Enter', 'show the cell in the table'], ['+ −', 'zoom in or out'], ['0', 'show everything'], ['Page Up, Page Down', 'move the window'],
  ]],
  ['Histogram, spectrum', [['← →', 'go from bar to bar'], ['Home, End', 'go to the first or the last one']]],
  ['Run', [['/', 'filter the tensors'], ['← →', 'on the slider, go from step to step; on the distribution, too'], ['↑ ↓', 'on the distribution, go from value to value'], ['Enter', 'choose that step']]],
  ['Values', [['Page Up, Page Down', 'turn the page']]],
  ['Map', [['↑ ↓ ← →', 'go to the container, into it, or beside it'], ['Enter', 'select it']]],
]

/** Shows them in a dialog, until it is closed. */
export function Keys({ onClose }: { onClose: () => void }) {
  const dialog = useRef<HTMLDialogElement>(null)
  useEffect(() => dialog.current!.showModal(), [])
  return (
    <dialog ref={dialog} class="keys" aria-labelledby="keys-title" onClose={onClose}>
      <h2 id="keys-title" tabIndex={-1} autofocus>Keys</h2>
      {KEYS.map(([where, keys]) => (
        <section>
          <h3>{where}</h3>
          <dl>{keys.map(([key, what]) => <><dt><kbd>{key}</kbd></dt><dd>{what}</dd></>)}</dl>
        </section>
      ))}
      <form method="dialog"><button type="submit">Close</button></form>
    </dialog>
  )
}
