// Settings of the page's parts that belong in its link: the chosen tab, the filter. Each has a name of the link.
import { useEffect, useReducer } from 'preact/hooks'

/** Whether a change is a step that Back returns from. */
export type Step = 'push' | 'replace'

const fields = new Map<string, string>()
const listeners = new Set<(step: Step) => void>()

/** All settings that are not the default. */
export function linkedFields(): Readonly<Record<string, string>> {
  return Object.fromEntries(fields)
}

/** Changes some settings, or with `isAll` replaces all of them. */
export function setLinked(changes: Readonly<Record<string, string>>, step: Step, isAll = false): void {
  const before = JSON.stringify([...fields])
  if (isAll) fields.clear()
  for (const [name, value] of Object.entries(changes)) {
    fields.delete(name)
    if (value) fields.set(name, value)
  }
  if (JSON.stringify([...fields]) !== before) for (const listener of listeners) listener(step)
}

/** Calls back after each change. Returns how to stop that. */
export function onLinked(listener: (step: Step) => void): () => void {
  listeners.add(listener)
  return () => listeners.delete(listener)
}

/** A setting, as useState() has it. The default is not in the link. */
export function useLinked<T extends string = string>(name: string, byDefault: NoInfer<T>, step: Step = 'replace'): readonly [T, (value: T) => void] {
  const [, draw] = useReducer((count: number) => count + 1, 0)
  useEffect(() => onLinked(() => draw(undefined)), [])
  return [(fields.get(name) as T | undefined) ?? byDefault, (value) => setLinked({ [name]: value === byDefault ? '' : value }, step)]
}
