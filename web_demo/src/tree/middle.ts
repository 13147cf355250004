// Names that lose their middle where they are too wide: the end tells names apart.

/** The least and most characters of the end. */
const SHORTEST = 8
const LONGEST = 26

/** A name in two parts; the first may be cut at its end, the second may not. The second begins at a separator if it can. */
export function splitForMiddle(name: string): readonly [start: string, end: string] {
  if (name.length <= LONGEST / 2) return ['', name]
  const least = Math.max(0, name.length - LONGEST)
  for (let at = least; at <= name.length - SHORTEST; at++) if ('/._-'.includes(name[at]!)) return [name.slice(0, at), name.slice(at)]
  const cut = name.length - LONGEST / 2
  return [name.slice(0, cut), name.slice(cut)]
}
