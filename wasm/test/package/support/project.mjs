// A user's project, in a folder that is removed after the tests.
import { execFile } from 'node:child_process'
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { packageFolder } from '../../browser/support/site.mjs'

const run = promisify(execFile)

/** Packs the package for publishing. Returns the tarball and npm's description of it. */
export async function pack() {
  const folder = await mkdtemp(join(tmpdir(), 'espalier-pack-'))
  const { stdout } = await run('npm', ['pack', '--json', '--pack-destination', folder], { cwd: packageFolder })
  const [packed] = JSON.parse(stdout)
  return { ...packed, tarball: join(folder, packed.filename), remove: () => rm(folder, { recursive: true, force: true }) }
}

export class Project {
  static async start(files) {
    const project = new Project()
    project.folder = await mkdtemp(join(tmpdir(), 'espalier-project-'))
    for (const [name, content] of Object.entries(files)) {
      const path = join(project.folder, name)
      await mkdir(dirname(path), { recursive: true })
      await writeFile(path, typeof content === 'string' ? content : JSON.stringify(content))
    }
    return project
  }

  /** Installs packages, as a user would. */
  async install(...args) {
    await this.run('npm', 'install', '--no-audit', '--no-fund', ...args)
  }

  /** Runs a program in the project's folder; returns its output, even if it fails. */
  async run(program, ...args) {
    try {
      return (await run(program, args, { cwd: this.folder })).stdout
    } catch (error) {
      throw new Error(`${program} ${args.join(' ')}: ${error.message}\n${error.stdout}`)
    }
  }

  async remove() {
    await rm(this.folder, { recursive: true, force: true })
  }
}
