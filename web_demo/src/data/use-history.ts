// Makes the browser's Back and Forward work, and keeps the page's address a link to what it shows.
import { useCallback, useEffect, useRef } from 'preact/hooks'
import type { Step } from './linked'

/** What the page shows. A link may not tell it all: it names no files of this machine. */
export interface Shown {
  /** The number of the open file; undefined for the run. */
  readonly file: number | undefined
  readonly item: number | undefined
  /** See linked.ts. */
  readonly fields: Readonly<Record<string, string>>
}

/** Marks the entries of this page load. Those from before a reload have the numbers of files that are numbered otherwise now. */
const LOAD = Math.random()

/**
 * Records each change of what is shown.
 * @param shown undefined while nothing is open
 * @param link the part of the address from '#' on
 * @param restore shows what an entry of the history shows
 * @param follow opens what the address says
 * @returns a function that says whether the next change is a step that Back returns from
 */
export function useHistory(shown: Shown | undefined, link: string, restore: (shown: Shown) => void, follow: () => void): (step: Step) => void {
  const step = useRef<Step>('replace')
  const entry = shown && { load: LOAD, ...shown }
  const text = JSON.stringify(entry)
  useEffect(() => {
    if (!entry) return
    const before = JSON.stringify(history.state ?? undefined)
    if (before === text && location.hash === link) return
    // A file may be open before it is shown: the step is still to come.
    const isStep = step.current === 'push' && isOfThisLoad(history.state) && before !== text
    if (before !== text) step.current = 'replace'
    try {
      history[isStep ? 'pushState' : 'replaceState'](entry, '', link || location.pathname + location.search)
    } catch {
      // Some browsers refuse after a hundred changes in half a minute. The next change brings the address up to date.
    }
  }, [text, link])

  useEffect(() => {
    const onPop = ({ state }: PopStateEvent): void => {
      if (isOfThisLoad(state)) restore(state)
      else if (state !== null) follow()
    }
    // Without a state, the user has changed the address.
    const onHash = (): void => {
      if (history.state === null) follow()
    }
    addEventListener('popstate', onPop)
    addEventListener('hashchange', onHash)
    return () => {
      removeEventListener('popstate', onPop)
      removeEventListener('hashchange', onHash)
    }
  }, [])
  return useCallback((next) => {
    step.current = next
  }, [])
}

function isOfThisLoad(state: unknown): state is Shown {
  return (state as { readonly load?: unknown } | null)?.load === LOAD
}
