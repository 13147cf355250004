// Addresses as people have them: a model of the Hugging Face Hub by its name, pages that show a file, and folders.
import { EspalierError } from 'espalier'

/** The host of models, and its short form. */
const HUB = 'https://huggingface.co'
/** What a repository without a named file is opened by: the index of a model in several files, or its only file. */
const MODELS = ['model.safetensors.index.json', 'model.safetensors'] as const
/** What a checkpoint that is a folder is opened by. Servers do not say what is in a folder. */
const IN_FOLDER = ['_CHECKPOINT_METADATA', '_METADATA', 'manifest.ocdbt', 'variables/variables.index', '.metadata', 'model.safetensors.index.json'] as const
/** A repository, perhaps of a kind: org/name, datasets/org/name. */
const REPOSITORY = String.raw`((?:datasets/|spaces/)?[\w.-]+/[\w.-]+?)`

const BY_NAME = new RegExp(String.raw`^hf:(?://)?${REPOSITORY}(?:/([^@?#]+?))?(?:@([^@?#]+))?/?$`)
const OF_REPOSITORY = new RegExp(String.raw`^https://(?:huggingface\.co|hf\.co)/${REPOSITORY}(?:/tree/([^/?#]+))?/?(?:[?#].*)?$`)
const OF_FILE = new RegExp(String.raw`^https://(?:huggingface\.co|hf\.co)/${REPOSITORY}/(?:blob|raw)/([^?#]+)(?:[?#].*)?$`)
const OF_FOLDER = /^[^?#]+\/$/
const OF_GITHUB = /^https:\/\/github\.com\/([\w.-]+\/[\w.-]+)\/(?:blob|raw)\/([^?#]+)(?:[?#].*)?$/

/** The addresses that a text may mean, the first that exists; the text itself if it is an address already. */
export function candidates(text: string): readonly string[] {
  const [, name, file, revision = 'main'] = BY_NAME.exec(text) ?? []
  if (name) return (file ? [file] : MODELS).map((one) => `${HUB}/${name}/resolve/${encodeURIComponent(revision)}/${one}`)
  const [, blobOf, path] = OF_FILE.exec(text) ?? []
  if (blobOf) return [`${HUB}/${blobOf}/resolve/${path}`]
  const [, github, below] = OF_GITHUB.exec(text) ?? []
  if (github) return [`https://raw.githubusercontent.com/${github}/${below}`]
  const [, repository, branch = 'main'] = OF_REPOSITORY.exec(text) ?? []
  if (repository && !/^(docs|blog|api|models|settings|spaces|datasets)\/[^/]*$/.test(repository)) return MODELS.map((one) => `${HUB}/${repository}/resolve/${branch}/${one}`)
  return OF_FOLDER.test(text) ? IN_FOLDER.map((one) => text + one) : [text]
}

/**
 * The address to fetch for a text. Of several, the first that the server has; the last one unasked.
 * @throws EspalierError for a folder that has none of them
 */
export async function resolveAddress(text: string, signal?: AbortSignal): Promise<string> {
  const all = candidates(text)
  const isFolder = all[0] === text + IN_FOLDER[0]
  for (const address of isFolder ? all : all.slice(0, -1)) {
    // Whatever else is wrong with the server, opening the last one says it.
    const answer = await fetch(address, { method: 'HEAD', signal: signal ?? null }).catch(() => undefined)
    signal?.throwIfAborted()
    if (answer?.ok) return address
  }
  if (!isFolder) return all.at(-1)!
  throw new EspalierError('file_not_found', 'this address is that of a folder, and none of the files that open such a checkpoint is there, such as _CHECKPOINT_METADATA; servers do not say what else is in a folder: give the address of one step, or of a file')
}
