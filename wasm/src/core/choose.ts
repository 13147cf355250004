// Which core opens which file.

/** The cores: for Espalier files, for most formats, for the files of PyTorch and NumPy, and for checkpoints in several files. */
export type Opener = 'core' | 'fullCore' | 'torchCore' | 'allCore'

/** Bytes of a file's front that openerOf() and every opener need: `kFirstReadBytes` of the core. */
export const FRONT_BYTES = 65536

const MAGIC = [0x89, 0x45, 0x53, 0x50, 0x4c, 0x0d, 0x0a, 0x1a]
/** Zip archives, also an empty one, and .npy. */
const OF_TORCH = [[0x50, 0x4b, 3, 4], [0x50, 0x4b, 5, 6], [0x93, 0x4e, 0x55, 0x4d, 0x50, 0x59]]
/** The bytes of the shortest safetensors header. */
const LEAST_HEADER = 2

/** The core for a file that begins with these bytes and has that size. */
export function openerOf(front: Uint8Array, size: number): Opener {
  const begins = (magic: readonly number[]): boolean => magic.every((byte, i) => front[i] === byte)
  if (begins(MAGIC)) return 'core'
  if (OF_TORCH.some(begins)) return 'torchCore'
  if (isShardIndex(front, size)) return 'allCore'
  if (!isPickle(front) || isSafetensors(front, size)) return 'fullCore'
  return isDistributed(front) ? 'allCore' : 'torchCore'
}

/** The core that a file of this name probably needs, to load it while the first bytes are on their way. */
export function likelyOpener(name: string): Opener {
  if (/(\.json|^\.metadata)$/i.test(name)) return 'allCore'
  if (/\.(pt|pth|bin|ckpt|pkl|pickle|npy|npz)$/i.test(name)) return 'torchCore'
  return /\.(safetensors|gguf|msgpack)$/i.test(name) ? 'fullCore' : 'core'
}

/** As looks_like_pickle() of the core: protocols 2 to 5, and older ones, which have no magic. */
function isPickle(front: Uint8Array): boolean {
  if (front[0] === 0x80) return front[1]! >= 2 && front[1]! <= 5
  return /^(\(dp|\(lp|\(S'|[\]}]q\0|\(?[ci]([A-Za-z_.][\w.]{0,254}\n){2}[()\]}pq.cNo0])/.test(latin(front.subarray(0, 600)))
}

/** As looks_like_dcp() of the core: the `.metadata` of a distributed checkpoint of PyTorch. */
function isDistributed(front: Uint8Array): boolean {
  return /Metadata[^]*state_dict_metadata/.test(latin(front.subarray(0, 512)))
}

/** As looks_like_shard_index() of the core: the JSON of a model in several files. */
function isShardIndex(front: Uint8Array, size: number): boolean {
  if (front[0] !== 0x7b || front.subarray(0, 8).includes(0)) return false
  const text = latin(front)
  return text.includes('"weight_map"') || (front.length < size && /^\{[ \t\r\n]*"metadata"/.test(text))
}

function latin(bytes: Uint8Array): string {
  return new TextDecoder('latin1').decode(bytes)
}

/** As looks_like_safetensors() of the core: the length of a header may begin like a pickle. */
function isSafetensors(front: Uint8Array, size: number): boolean {
  if (front.length <= 8) return false
  const { buffer, byteOffset } = front
  const header = Number(new DataView(buffer, byteOffset).getBigUint64(0, true))
  return front[8] === 0x7b || (header >= LEAST_HEADER && header <= size - 8)
}
