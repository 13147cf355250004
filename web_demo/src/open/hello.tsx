// What a first visit is told above the example.

interface HelloProps {
  /** Undefined once the later step is open. */
  readonly onCompare: (() => void) | undefined
  onRun(): void
  onDismiss(): void
}

/** Says what the page is, that this is an example, and what to try. */
export function Hello({ onCompare, onRun, onDismiss }: HelloProps) {
  return (
    <aside class="hello" aria-label="About this page">
      <p>
        <b>Espalier shows what is inside a training checkpoint, in your browser.</b> This is an example: a
        small training run at step 60.
      </p>
      {onCompare && <button type="button" onClick={onCompare}>Compare with step 120</button>}
      <button type="button" onClick={onRun}>See the whole run</button>
      <button type="button" class="plain" onClick={onDismiss}>Dismiss</button>
    </aside>
  )
}
