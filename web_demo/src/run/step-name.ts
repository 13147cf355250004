// How a link names a checkpoint of a run: by its step, and by its place among those of the same step.

interface Step {
  readonly step: number
}

/** '100', or '100:2' for the second checkpoint of that step. */
export function stepName(steps: readonly Step[], at: number): string {
  const { step } = steps[at]!
  let place = 1
  for (let i = 0; i < at; i++) if (steps[i]!.step === step) place++
  return place === 1 ? String(step) : `${step}:${place}`
}

/** The position of the checkpoint with a name; -1 if there is none. */
export function stepNamed(steps: readonly Step[], name: string): number {
  const [step, place = '1'] = name.split(':')
  const first = steps.findIndex((one) => String(one.step) === step)
  for (let i = first, left = Number(place); i >= 0 && i < steps.length; i++) if (steps[i]!.step === steps[first]!.step && --left === 0) return i
  return -1
}
