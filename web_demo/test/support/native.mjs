// The command line, to compare with: ESPALIER says where it is, or it is that of the release build.
import { fileURLToPath } from 'node:url'

export const native = process.env.ESPALIER ?? fileURLToPath(new URL('../../../build/release/espalier', import.meta.url))
