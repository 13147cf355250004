// The 128 bytes at the start of every file: the one place that knows their positions.
#ifndef ESPALIER_FORMAT_HEADER_H_
#define ESPALIER_FORMAT_HEADER_H_

#include <array>
#include <cstdint>

#include "espalier/bytes.h"
#include "espalier/codec/hash.h"
#include "espalier/error.h"
#include "espalier/limits.h"

namespace espalier {

inline constexpr std::size_t kHeaderBytes = 128;
/// The largest index: FlatBuffers have signed 32-bit offsets.
inline constexpr std::uint64_t kMaxIndexBytes = (std::uint64_t{1} << 31) - 1;
/// Where the tree digest stands: for errors about it.
inline constexpr std::uint64_t kTreeDigestOffset = 64;
inline constexpr std::array<unsigned char, 8> kMagic = {0x89, 0x45, 0x53, 0x50,
                                                        0x4C, 0x0D, 0x0A, 0x1A};
inline constexpr std::uint16_t kVersionMajor = 1;
/// The newest minor version that is known.
inline constexpr std::uint16_t kVersionMinor = 1;

/// The fields of a header.
struct Header {
  std::uint16_t minor = 0;
  std::uint64_t features = 0;
  std::uint64_t file_length = 0;
  std::uint64_t index_length = 0;
  Hash128 index_hash;
  Hash128 tree_digest;

  std::uint64_t index_end() const { return kHeaderBytes + index_length; }
};

/// Whether `bytes` (the first of a file, at least 8) begin with the magic.
bool has_magic(ByteSpan bytes);

/// Reads and checks a header. `bytes` are the first of the file, as many as there are up to 128.
/// `known_features` are the bits that the caller can handle. On success the recorded lengths are
/// consistent with each other and within `limits`.
[[nodiscard]] Result<Header> decode_header(ByteSpan bytes, const Limits& limits,
                                           std::uint64_t known_features);

/// The bytes of a header, its own hash included, in the version that its features need: `minor` is
/// not looked at.
std::array<std::byte, kHeaderBytes> encode_header(const Header& header);

/// Checks the recorded length of the file against its actual size.
[[nodiscard]] Result<void> check_file_length(const Header& header, std::uint64_t actual);

}  // namespace espalier

#endif  // ESPALIER_FORMAT_HEADER_H_
