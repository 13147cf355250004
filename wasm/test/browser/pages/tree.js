/** A tree to write, the same wherever it is made. @param espalier the package */
export function treeOf({ tuple, tensor }) {
  const weight = Float32Array.from({ length: 300_000 }, (_, i) => i / 8)
  return {
    step: 100, betas: tuple([0.9, 0.999]), weight, tied: weight,
    half: tensor({ dtype: 'bf16', shape: [2, 2], data: Uint16Array.of(0x3f80, 0x4000, 0, 0xbf80) }),
  }
}
