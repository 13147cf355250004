// Knows the memory of each instance of the core that is made from now on.

const instantiate = WebAssembly.instantiate
const memories = []

WebAssembly.instantiate = async (...args) => {
  const instance = await instantiate(...args)
  memories.push(instance.exports.memory)
  return instance
}

/** Bytes of all these memories. They never shrink, so this is the most that there were. */
export function memoryBytes() {
  return memories.reduce((sum, { buffer }) => sum + buffer.byteLength, 0)
}
