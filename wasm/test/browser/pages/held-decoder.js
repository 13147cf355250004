// Makes the decoder wait at each chunk until the server answers, and its thread with it.
const instantiate = WebAssembly.instantiate
WebAssembly.instantiate = async (...args) => {
  const { exports } = await instantiate(...args)
  const decode = exports.espalier_decode
  return { exports: { ...exports, espalier_decode(...args) {
    const request = new XMLHttpRequest()
    request.open('GET', '/decoding', false)
    request.send()
    return decode(...args)
  } } }
}
