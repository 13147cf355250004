// Groups tensors by layer, from their key paths alone.

/**
 * The part of a key path that names the layer: up to the last number before the last segment, otherwise all but the last
 * segment. Dots separate segments, too. As in src/espalier/report/layer_path.cpp.
 */
export function layerOf(path: string): string {
  const separators = [...path.matchAll(/[/.]/g)].map(({ index }) => index)
  for (let i = separators.length - 1; i >= 0; i--) {
    const begin = i === 0 ? 0 : separators[i - 1]! + 1
    if (/^(~2)?\d+$/.test(path.slice(begin, separators[i]))) return path.slice(0, separators[i])
  }
  return path.slice(0, Math.max(separators.at(-1) ?? 0, 0))
}
