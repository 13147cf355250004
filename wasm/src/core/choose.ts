// Which core opens which file.

/** The cores: for Espalier files, for most formats, and for the files of PyTorch and NumPy. */
export type Opener = 'core' | 'fullCore' | 'torchCore'

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
  if (OF_TORCH.some(begins) || (isPickle(front) && !isSafetensors(front, size))) return 'torchCore'
  return 'fullCore'
}

/** The core that a file of this name probably needs, to load it while the first bytes are on their way. */
export function likelyOpener(name: string): Opener {
  if (/\.(pt|pth|bin|ckpt|pkl|pickle|npy|npz)$/i.test(name)) return 'torchCore'
  return /\.(safetensors|gguf|msgpack)$/i.test(name) ? 'fullCore' : 'core'
}

/** A pickle of protocol 2 to 5, but for the `.metadata` of a distributed checkpoint, which core-full names. */
function isPickle(front: Uint8Array): boolean {
  const begins = front[0] === 0x80 && front[1]! >= 2 && front[1]! <= 5
  return begins && !String.fromCharCode(...front.subarray(0, 512)).includes('state_dict_metadata')
}

/** As looks_like_safetensors() of the core: the length of a header may begin like a pickle. */
function isSafetensors(front: Uint8Array, size: number): boolean {
  if (front.length <= 8) return false
  const { buffer, byteOffset } = front
  const header = Number(new DataView(buffer, byteOffset).getBigUint64(0, true))
  return front[8] === 0x7b || (header >= LEAST_HEADER && header <= size - 8)
}
