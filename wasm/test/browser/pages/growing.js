// Grows the memory of each instance of the core that is made from now on.

const instantiate = WebAssembly.instantiate
const memories = []

globalThis.growth = {
  /** Whether memory grows at calls of the core, before and after them. */
  isOn: false,
  /** How often it has grown. */
  times: 0,
  /** Grows all memories by a page, which takes each view of them its bytes. */
  grow() {
    for (const memory of memories) memory.grow(1)
    growth.times += 1
  },
}

// At every so manieth moment: at each would take gigabytes. Odd, so that it comes before calls and after them.
const STEP = 7

WebAssembly.instantiate = async (...args) => {
  const { exports } = await instantiate(...args)
  const { memory } = exports
  memories.splice(0, memories.length, ...memories.slice(-3), memory)
  let calls = 0
  const grow = () => {
    if (growth.isOn && ++calls % STEP === 0) {
      memory.grow(1)
      growth.times += 1
    }
  }
  const wrapped = {}
  for (const [name, value] of Object.entries(exports)) {
    wrapped[name] = typeof value !== 'function' ? value : (...args) => {
      grow()
      const result = value(...args)
      grow()
      return result
    }
  }
  return { exports: wrapped }
}
