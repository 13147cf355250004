// The scale of an axis and its ticks, for any finite numbers: differences and ratios of doubles may exceed the largest.

/** The ends of an axis with some room around the values from `low` to `high`, which may be equal. */
export function widened(low: number, high: number, isLog: boolean): [number, number] {
  if (isLog) {
    const room = high / low > 1.5 ? 1.1 : 1.5
    return [Math.max(low / room, Number.MIN_VALUE), Math.min(high * room, Number.MAX_VALUE)]
  }
  const room = high * 0.05 - low * 0.05 || Math.abs(high) * 0.1 || 1
  return [Math.max(low - room, -Number.MAX_VALUE), Math.min(high + room, Number.MAX_VALUE)]
}

/** How far a value is from `low`, which is less than `high`: 0 to 1. */
export function shareOf(value: number, low: number, high: number, isLog: boolean): number {
  const size = Math.max(Math.abs(low), Math.abs(high))
  const on = (one: number): number => (isLog ? Math.log(one) : one / size)
  return (on(value) - on(low)) / (on(high) - on(low))
}

/** Round numbers from `low` to `high`, about `wanted` of them. */
export function linearTicks(low: number, high: number, wanted: number): number[] {
  if (!Number.isFinite(low) || !Number.isFinite(high)) return []
  const rough = high / wanted - low / wanted
  if (!(rough > 0)) return [low]
  const power = 10 ** Math.floor(Math.log10(rough))
  const step = power * ([1, 2, 5, 10].find((factor) => factor * power >= rough) ?? 10)
  if (!(step > 0)) return [low]
  const ticks: number[] = []
  // Multiply whole numbers: adding steps accumulates rounding errors.
  for (let i = Math.ceil(low / step); i * step <= high && ticks.length < 50; i++) ticks.push(i * step || 0)
  return ticks
}

/** Powers of ten from `low` to `high`, both above 0, about `wanted` of them; if these are few, also 2 and 5 times them. */
export function logTicks(low: number, high: number, wanted: number): number[] {
  // Powers from those of 0 or to those of infinity have no end.
  if (!(low > 0) || !(high < Infinity)) return []
  const first = Math.ceil(Math.log10(low) - 1e-9)
  const last = Math.floor(Math.log10(high) + 1e-9)
  const step = Math.max(1, Math.ceil((last - first + 1) / wanted))
  const ticks: number[] = []
  for (let power = first; power <= last; power += step) ticks.push(10 ** power)
  if (ticks.length > 2) return ticks
  const between: number[] = []
  for (let power = first - 1; power <= last; power++) between.push(...[1, 2, 5].map((factor) => factor * 10 ** power))
  const inside = between.filter((tick) => tick >= low * (1 - 1e-9) && tick <= high * (1 + 1e-9) && tick < Infinity)
  return inside.length > 2 ? inside : linearTicks(low, high, wanted).filter((tick) => tick > 0)
}
