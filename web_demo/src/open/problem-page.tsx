// Shown if a file cannot be opened.
import { visible } from '../ui/visible'
import { problemOf } from './problem'

interface ProblemPageProps {
  /** The name of the input, and the error. */
  readonly name: string
  readonly error: unknown
  onRetry(): void
  onDismiss(): void
  /** Given if the whole file could be fetched instead. */
  readonly onFetchWhole: (() => void) | undefined
}

/** Shows the problem, its position, and what to do. */
export function ProblemPage({ name, error, onRetry, onDismiss, onFetchWhole }: ProblemPageProps) {
  const { message, code, offset, path, advice } = problemOf(error)
  return (
    <section class="problem" role="alert" aria-labelledby="problem-title">
      <h2 id="problem-title">{visible(name)} cannot be opened</h2>
      <p class="problem-message">{visible(message)}</p>
      <dl>
        {code && <><dt>Code</dt><dd><code>{code}</code></dd></>}
        {offset && <><dt>At byte</dt><dd><code>{offset}</code></dd></>}
        {path && <><dt>In</dt><dd><code>{visible(path)}</code></dd></>}
        <dt>What to do</dt>
        <dd>{advice}</dd>
      </dl>
      <p class="actions">
        <button type="button" onClick={onRetry}>Try again</button>
        {onFetchWhole && <button type="button" onClick={onFetchWhole}>Fetch the whole file</button>}
        <button type="button" class="plain" onClick={onDismiss}>Dismiss</button>
      </p>
    </section>
  )
}
