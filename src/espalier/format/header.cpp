#include "espalier/format/header.h"

#include <algorithm>
#include <string>

#include "espalier/base/checked.h"
#include "espalier/base/counted.h"
#include "espalier/base/little_endian.h"
#include "espalier/detail/catalog.h"
#include "espalier/format/features.h"

namespace espalier {
namespace {

// Positions of the fields, docs/format.md section 1.
constexpr std::size_t kAtMajor = 8;
constexpr std::size_t kAtMinor = 10;
constexpr std::size_t kAtZero = 12;
constexpr std::size_t kAtFeatures = 16;
constexpr std::size_t kAtFileLength = 24;
constexpr std::size_t kAtIndexOffset = 32;
constexpr std::size_t kAtIndexLength = 40;
constexpr std::size_t kAtIndexHash = 48;
constexpr std::size_t kAtReserved = 80;
constexpr std::size_t kAtHeaderHash = 120;

std::uint16_t minor_of(std::uint64_t features) { return (features & kFeaturesOf11) != 0 ? 1 : 0; }

}  // namespace

bool has_magic(ByteSpan bytes) {
  return bytes.size() >= kMagic.size() &&
         std::memcmp(bytes.data(), kMagic.data(), kMagic.size()) == 0;
}

Result<Header> decode_header(ByteSpan bytes, const Limits& limits, std::uint64_t known_features) {
  const std::size_t compared = std::min(bytes.size(), kMagic.size());
  if (bytes.empty()) {
    return fail(ErrorCode::kTruncated, "the file is empty; nothing was ever written to it", 0);
  }
  if (std::memcmp(bytes.data(), kMagic.data(), compared) != 0) {
    const bool all_zero = std::all_of(bytes.begin(), bytes.end(),
                                      [](std::byte byte) { return byte == std::byte{0}; });
    return fail(ErrorCode::kNotACheckpoint,
                all_zero ? "the file begins with zeros: a save was interrupted before its header "
                           "was written; use the previous checkpoint"
                         : "not an Espalier file: it does not begin with the magic bytes",
                0);
  }
  const auto truncated = [&] {
    return fail(ErrorCode::kTruncated,
                "the file ends after " + counted(bytes.size(), "byte") +
                    ", within its 128-byte header; copy or download it again",
                bytes.size());
  };
  if (bytes.size() < kAtMinor + sizeof(std::uint16_t)) return truncated();
  const std::byte* p = bytes.data();
  const auto major = load_le<std::uint16_t>(p + kAtMajor);
  const auto minor = load_le<std::uint16_t>(p + kAtMinor);
  // Check the version first: another version may have a shorter header, or its hash elsewhere.
  if (major != kVersionMajor || minor > kVersionMinor) {
    return fail(ErrorCode::kUnsupportedVersion,
                "the file has format version " + std::to_string(major) + "." +
                    std::to_string(minor) +
                    " and this library reads 1.0 and 1.1; use a newer Espalier, or "
                    "copy the file again if no newer one wrote it",
                kAtMajor);
  }
  if (bytes.size() < kHeaderBytes) return truncated();
  if (load_le<std::uint64_t>(p + kAtHeaderHash) != hash64(bytes.first(kAtHeaderHash))) {
    return fail(ErrorCode::kHeaderCorrupt,
                "the header does not match its hash; copy or download the file again",
                kAtHeaderHash);
  }
  Header header;
  header.minor = minor;
  header.features = load_le<std::uint64_t>(p + kAtFeatures);
  header.file_length = load_le<std::uint64_t>(p + kAtFileLength);
  header.index_length = load_le<std::uint64_t>(p + kAtIndexLength);
  header.index_hash = load_le<Hash128>(p + kAtIndexHash);
  header.tree_digest = load_le<Hash128>(p + kTreeDigestOffset);
  if ((header.features & ~known_features) != 0) {
    return fail(ErrorCode::kUnsupportedFeature,
                "the file needs feature bits " + std::to_string(header.features & ~known_features) +
                    " that this library does not know; use a newer Espalier",
                kAtFeatures);
  }
  if (minor != minor_of(header.features)) {
    return fail(ErrorCode::kHeaderInvalid,
                "the version of the header is not the lowest that has the features of the file",
                kAtMinor);
  }
  if (load_le<std::uint32_t>(p + kAtZero) != 0 ||
      std::any_of(p + kAtReserved, p + kAtHeaderHash,
                  [](std::byte byte) { return byte != std::byte{0}; })) {
    return fail(ErrorCode::kHeaderInvalid, "reserved bytes of the header are not zero",
                load_le<std::uint32_t>(p + kAtZero) != 0 ? kAtZero : kAtReserved);
  }
  if (load_le<std::uint64_t>(p + kAtIndexOffset) != kHeaderBytes) {
    return fail(ErrorCode::kHeaderInvalid, "the index does not follow the header", kAtIndexOffset);
  }
  if (header.index_length == 0 || header.index_length > kMaxIndexBytes) {
    return fail(ErrorCode::kHeaderInvalid,
                "the header says that the index has " + counted(header.index_length, "byte"),
                kAtIndexLength);
  }
  if (!range_fits(kHeaderBytes, header.index_length, header.file_length)) {
    return fail(ErrorCode::kHeaderInvalid, "the header says that the index ends after the file",
                kAtIndexLength);
  }
  // Check before any allocation: a header of 128 bytes could otherwise ask for gigabytes.
  if (header.index_length > limits.index_bytes) {
    return fail(ErrorCode::kLimitExceeded,
                "the index has " + counted(header.index_length, "byte") +
                    " and Limits::index_bytes allows " + std::to_string(limits.index_bytes),
                kAtIndexLength);
  }
  return header;
}

std::array<std::byte, kHeaderBytes> encode_header(const Header& header) {
  std::array<std::byte, kHeaderBytes> bytes{};
  std::byte* p = bytes.data();
  std::memcpy(p, kMagic.data(), kMagic.size());
  store_le(p + kAtMajor, kVersionMajor);
  store_le(p + kAtMinor, minor_of(header.features));
  store_le(p + kAtFeatures, header.features);
  store_le(p + kAtFileLength, header.file_length);
  store_le(p + kAtIndexOffset, std::uint64_t{kHeaderBytes});
  store_le(p + kAtIndexLength, header.index_length);
  store_le(p + kAtIndexHash, header.index_hash);
  store_le(p + kTreeDigestOffset, header.tree_digest);
  store_le(p + kAtHeaderHash, hash64(ByteSpan(bytes).first(kAtHeaderHash)));
  return bytes;
}

Result<void> check_file_length(const Header& header, std::uint64_t actual) {
  if (actual < header.file_length) {
    return fail(ErrorCode::kTruncated,
                "the file has " + std::to_string(actual) + " of its " +
                    counted(header.file_length, "byte") + "; copy or download it again",
                actual);
  }
  if (actual > header.file_length) {
    return fail(ErrorCode::kTrailingBytes,
                "the file goes on for " + counted(actual - header.file_length, "byte") +
                    " after its recorded end; something was appended to it",
                header.file_length);
  }
  return {};
}

}  // namespace espalier
