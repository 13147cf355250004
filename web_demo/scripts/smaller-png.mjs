// Makes screenshots small enough for a repository.
import { crc32, deflateSync, inflateSync } from 'node:zlib'

/**
 * Makes the PNG smaller. Browsers choose a filter for each line, which suits photographs. Letters repeat the same
 * bytes, and filters hide that.
 */
export function smaller(png) {
  const [width, height, isRgba] = [png.readUInt32BE(16), png.readUInt32BE(20), png[25] === 6]
  const data = []
  for (let at = 8; at < png.length; at += 12 + png.readUInt32BE(at)) if (png.toString('latin1', at + 4, at + 8) === 'IDAT') data.push(png.subarray(at + 8, at + 8 + png.readUInt32BE(at)))
  const lines = inflateSync(Buffer.concat(data))
  const pixel = isRgba ? 4 : 3
  const length = 1 + width * pixel
  for (let y = 0; y < height; y++) {
    const filter = lines[y * length]
    lines[y * length] = 0
    for (let i = 1; i < length; i++) {
      const at = y * length + i
      const left = i > pixel ? lines[at - pixel] : 0
      const up = y > 0 ? lines[at - length] : 0
      const corner = i > pixel && y > 0 ? lines[at - pixel - length] : 0
      const [a, b, c] = [left, up, corner].map((value) => Math.abs(left + up - corner - value))
      const nearest = a <= b && a <= c ? left : b <= c ? up : corner
      lines[at] += [0, left, up, (left + up) >> 1, nearest][filter]
    }
  }
  const body = Buffer.concat([Buffer.from('IDAT'), deflateSync(lines, { level: 9 })])
  const word = (value) => Buffer.from(Uint32Array.of(value).buffer).reverse()
  return Buffer.concat([png.subarray(0, 33), word(body.length - 4), body, word(crc32(body)), png.subarray(-12)])
}
