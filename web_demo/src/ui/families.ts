// The colours of types and of a checkpoint's parts: classes of style.css.

const FAMILIES: readonly (readonly [RegExp, string])[] = [
  [/^(f64|f32|f16|bf16)/, 'float'],
  [/^f\d/, 'narrow'],
  [/^[iu]\d/, 'int'],
  [/^bool/, 'bool'],
  [/^c\d/, 'complex'],
]

/** The class of a dtype's chip. */
export function dtypeClass(dtype: string): string {
  return `is-${FAMILIES.find(([pattern]) => pattern.test(dtype))?.[1] ?? 'block'}`
}

const PARTS: readonly (readonly [RegExp, string])[] = [
  [/optim|^opt_state/i, 'optimizer'],
  [/sched/i, 'schedule'],
  [/rng|random/i, 'rng'],
  [/model|module|params|net|state_dict|weights|ema|encoder|decoder|transformer|layers|blk/i, 'model'],
]

/** The class of a part of the state by its name, such as `optimizer`; '' for others. */
export function partClass(name: string): string {
  const part = PARTS.find(([pattern]) => pattern.test(name))?.[1]
  return part ? `part-${part}` : ''
}
