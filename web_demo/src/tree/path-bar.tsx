// The path of the selection, each step of which can be selected.
import type { OpenFile } from '../data/open-file'
import { partClass } from '../ui/families'
import { visible } from '../ui/visible'

/** The path and its actions. */
export interface PathBarProps {
  readonly file: OpenFile
  readonly selected: number
  onSelect(node: number): void
  /** Called to show the tree on a narrow page, which shows either the tree or the pane. */
  onBack(): void
  /** Called to save the selection as a file; undefined if it cannot be one. */
  readonly onSave: (() => void) | undefined
}

/** Steps of a deep path that are shown. */
const FIRST = 2
const LAST = 8

/** The bar above the pane. */
export function PathBar({ file: { outline }, selected, onSelect, onBack, onSave }: PathBarProps) {
  const steps: number[] = []
  for (let at: number | undefined = selected; at !== undefined; at = outline.parent(at)) steps.unshift(at)
  const isCut = steps.length > FIRST + LAST
  const shown = isCut ? [...steps.slice(0, FIRST), ...steps.slice(-LAST)] : steps
  return (
    <nav class="path-bar" aria-label="Path">
      <button type="button" class="back" onClick={onBack}>
        <svg class="icon" viewBox="0 0 16 16" aria-hidden="true"><path d="M10 3L5 8l5 5" /></svg>Tree
      </button>
      <ol>
        {shown.map((node, i) => (
          <li key={node} class={i === 1 ? partClass(outline.name(node)) : ''}>
            {isCut && i === FIRST && <span class="quiet">… / </span>}
            <button type="button" class="plain" aria-current={node === selected} onClick={() => onSelect(node)}>{visible(outline.name(node)) || '""'}</button>
          </li>
        ))}
      </ol>
      {onSave && <button type="button" class="save-as" onClick={onSave}>Save as…</button>}
    </nav>
  )
}
