// The checkpoints that Orbax made: tests/foreign/orbax/files.tar.xz.
import { execFileSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'

const archive = fileURLToPath(new URL('../../../tests/foreign/orbax/files.tar.xz', import.meta.url))

/** Unpacks them into a folder: 'manager/10', ... */
export function unpackOrbax(folder) {
  // Python unpacks xz everywhere.
  execFileSync('python3', ['-c', 'import sys, tarfile; tarfile.open(sys.argv[1]).extractall(sys.argv[2])', archive, folder])
}
