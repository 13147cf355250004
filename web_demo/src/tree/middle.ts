// Names that lose their middle where they are too wide: the end tells names apart.

/** The share of the end. A path keeps only its end: what tells it from others is rarely in its first names. */
const [NAME_END, PATH_END] = [0.64, 1]
/** The end begins at a separator if there is one within so many characters. */
const NEAR = 6

/** Splits a name in three. The page hides the second part, which is empty if the name has at most `most` characters. */
export function cutMiddle(name: string, most: number): readonly [start: string, middle: string, end: string] {
  if (name.length <= most) return [name, '', '']
  const kept = Math.max(most - 1, 4)
  const first = name.length - Math.ceil(kept * (name.indexOf('/') === name.lastIndexOf('/') ? NAME_END : PATH_END))
  let end = first
  for (let at = first; at < Math.min(first + NEAR, name.length - 1); at++) {
    if ('/._-'.includes(name[at]!)) {
      end = at
      break
    }
  }
  const start = first === name.length - kept ? 0 : kept - (name.length - end)
  return [name.slice(0, start), name.slice(start, end), name.slice(end)]
}
