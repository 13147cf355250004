// Zip archives for tests.

const CRC = Uint32Array.from({ length: 256 }, (_, byte) => {
  let crc = byte
  for (let bit = 0; bit < 8; bit++) crc = crc & 1 ? (crc >>> 1) ^ 0xedb88320 : crc >>> 1
  return crc
})

/** The CRC-32 of bytes, one at a time. */
export function crc32(bytes) {
  let crc = ~0
  for (const byte of bytes) crc = CRC[(crc ^ byte) & 0xff] ^ (crc >>> 8)
  return ~crc >>> 0
}

/** An archive of stored entries, given as pairs of name and bytes. */
export function storedZip(entries) {
  const [files, directory] = [[], []]
  let at = 0
  for (const [name, bytes] of entries) {
    const fields = Buffer.alloc(26)
    fields.writeUInt16LE(20, 0)
    fields.writeUInt32LE(crc32(bytes), 10)
    fields.writeUInt32LE(bytes.length, 14)
    fields.writeUInt32LE(bytes.length, 18)
    fields.writeUInt16LE(name.length, 22)
    const central = Buffer.alloc(46)
    central.write('PK\x01\x02\x14\x00')
    fields.copy(central, 6)
    central.writeUInt32LE(at, 42)
    directory.push(central, Buffer.from(name))
    files.push(Buffer.from('PK\x03\x04'), fields, Buffer.from(name), bytes)
    at += 30 + name.length + bytes.length
  }
  const end = Buffer.alloc(22)
  end.write('PK\x05\x06')
  end.writeUInt16LE(entries.length, 8)
  end.writeUInt16LE(entries.length, 10)
  end.writeUInt32LE(Buffer.concat(directory).length, 12)
  end.writeUInt32LE(at, 16)
  return new Uint8Array(Buffer.concat([...files, ...directory, end]))
}

/** The entries of a small archive without a comment: where their bytes are, and how many are stored. */
export function entriesOf(zip) {
  const bytes = Buffer.from(zip.buffer, zip.byteOffset, zip.length)
  const end = bytes.length - 22
  let at = bytes.readUInt32LE(end + 16)
  return Array.from({ length: bytes.readUInt16LE(end + 10) }, () => {
    const [name, extra, comment] = [28, 30, 32].map((field) => bytes.readUInt16LE(at + field))
    const local = bytes.readUInt32LE(at + 42)
    const entry = {
      name: bytes.toString('latin1', at + 46, at + 46 + name),
      isStored: bytes.readUInt16LE(at + 10) === 0,
      offset: local + 30 + bytes.readUInt16LE(local + 26) + bytes.readUInt16LE(local + 28),
      length: bytes.readUInt32LE(at + 20),
    }
    at += 46 + name + extra + comment
    return entry
  })
}
