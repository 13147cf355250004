// The native command line, to compare with. It is not always there: ESPALIER says where it is.
import { execFileSync } from 'node:child_process'

/** Where the command line is; undefined if only what holds without it can be checked. */
export const native = process.env.ESPALIER || undefined

/**
 * The result of `espalier verify` for each file: a list of errors, empty for an intact file. An error has code,
 * message, offset and path, null for what it does not say; and `file` where it is about another than the opened one.
 */
export function nativeErrors(files) {
  const options = { encoding: 'utf8', maxBuffer: 1 << 28, stdio: ['ignore', 'pipe', 'ignore'] }
  const all = []
  // Not all at once: the system bounds how long a command may be.
  for (let i = 0; i < files.length; i += 500) all.push(...run(files.slice(i, i + 500), options))
  return all
}

function run(files, options) {
  let output
  try {
    output = execFileSync(native, ['verify', '--json', ...files], options)
  } catch (error) {
    // Its exit code only says that some are damaged.
    if (!error.stdout) throw error
    output = error.stdout
  }
  return JSON.parse(output).files.map(({ failure, errors }) => (failure ? [failure] : errors))
}

/** An error of the package as the command line says it. */
export function asNative({ code, message, offset, path, file }) {
  return { code, message, offset: offset ?? null, path: path ?? null, ...(file && { file }) }
}
