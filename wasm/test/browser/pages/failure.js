/** The error of a rejected promise, as data; throws if it does not reject. */
export async function failure(promise) {
  let value
  try {
    value = await promise
  } catch (error) {
    const { code, message, offset, path } = error
    return { class: error.constructor.name, typed: error instanceof espalier.EspalierError, code, message, offset, path }
  }
  throw new Error(`did not fail, and gave ${value}`)
}
