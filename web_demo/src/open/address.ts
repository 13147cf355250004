// Addresses as people have them: a model of the Hugging Face Hub by its name, and pages that show a file.

/** The host of models, and its short form. */
const HUB = 'https://huggingface.co'
/** What a repository without a named file is opened by: the index of a model in several files, or its only file. */
const MODELS = ['model.safetensors.index.json', 'model.safetensors'] as const
/** A repository, perhaps of a kind: org/name, datasets/org/name. */
const REPOSITORY = String.raw`((?:datasets/|spaces/)?[\w.-]+/[\w.-]+?)`

const BY_NAME = new RegExp(String.raw`^hf:(?://)?${REPOSITORY}(?:/([^@?#]+?))?(?:@([^@?#]+))?/?$`)
const OF_REPOSITORY = new RegExp(String.raw`^https://(?:huggingface\.co|hf\.co)/${REPOSITORY}(?:/tree/([^/?#]+))?/?(?:[?#].*)?$`)
const OF_FILE = new RegExp(String.raw`^https://(?:huggingface\.co|hf\.co)/${REPOSITORY}/(?:blob|raw)/([^?#]+)(?:[?#].*)?$`)
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
  return [text]
}

/** The address to fetch for a text. Of several, the first that the server has; the last one unasked. */
export async function resolveAddress(text: string): Promise<string> {
  const all = candidates(text)
  for (const address of all.slice(0, -1)) {
    // Whatever else is wrong with the server, opening the last one says it.
    const answer = await fetch(address, { method: 'HEAD' }).catch(() => undefined)
    if (answer?.ok) return address
  }
  return all.at(-1)!
}
