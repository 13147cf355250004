// CRC-32C, the checksum of OCDBT, of zarr's shards and of TensorFlow's checkpoints.
#ifndef ESPALIER_FOREIGN_COMMON_CRC32C_H_
#define ESPALIER_FOREIGN_COMMON_CRC32C_H_

#include <cstdint>

#include "espalier/bytes.h"

namespace espalier {

/// The CRC-32C of the bytes before, whose own is `before` (0 if there are none), and of `bytes`.
/// Castagnoli's polynomial, as in RFC 3720, appendix B.4. Not masked.
std::uint32_t crc32c_after(std::uint32_t before, ByteSpan bytes);

/// The CRC-32C of what has the CRC-32C `before`, and `length` bytes with the CRC-32C `after` behind
/// it.
std::uint32_t crc32c_joined(std::uint32_t before, std::uint32_t after, std::uint64_t length);

}  // namespace espalier

#endif  // ESPALIER_FOREIGN_COMMON_CRC32C_H_
