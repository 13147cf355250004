// Parts of the page that are loaded when they are first shown.
import { preload } from 'espalier'
import type { ComponentType } from 'preact'
import { useEffect, useState } from 'preact/hooks'

const parts: (() => Promise<unknown>)[] = []

/** Something that is loaded when it is first used. */
export function part<T>(load: () => Promise<T>): () => Promise<T> {
  parts.push(load)
  return load
}

/** Loads all parts that are still missing, so that the page keeps working without a network. */
export async function loadParts(): Promise<void> {
  // One after the other: what is looked at meanwhile comes first. Whatever fails is tried again when it is shown.
  // A part may add further ones to the list.
  for (const load of parts) await load().catch(() => {})
  await preload(undefined, { writing: true }).catch(() => {})
}

/** A component that is loaded when it is first shown. */
export function lazy<P extends object>(load: () => Promise<ComponentType<P>>) {
  let loaded: ComponentType<P> | undefined
  const loadStyled = part(async () => {
    const [component] = await Promise.all([load(), import('./panes.css')])
    return component
  })
  return function Lazy(props: P) {
    const [failure, setFailure] = useState<string>()
    const [, setLoaded] = useState(loaded !== undefined)
    useEffect(() => {
      if (loaded) return
      loadStyled().then(
        (component) => {
          loaded = component
          setLoaded(true)
        },
        (error: unknown) => setFailure(String(error)),
      )
    }, [])
    if (failure) return <p role="alert">This part of the page could not be loaded: {failure}. Reload the page.</p>
    const Component = loaded
    return Component ? <Component {...props} /> : <p class="quiet">Loading...</p>
  }
}
