// Makes each chunk take the decoder long, in this thread: what a large tensor does, in a time that does not depend on the
// machine.

/** Milliseconds that the decoder takes for a chunk. */
export const CHUNK = 100

const instantiate = WebAssembly.instantiate
WebAssembly.instantiate = async (...args) => {
  const { exports } = await instantiate(...args)
  const decode = exports.espalier_decode
  return { exports: { ...exports, espalier_decode(...args) {
    for (const end = performance.now() + CHUNK; performance.now() < end;);
    return decode(...args)
  } } }
}
