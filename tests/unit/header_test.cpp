#include "espalier/format/header.h"

#include <vector>

#include <doctest/doctest.h>

#include "espalier/base/little_endian.h"
#include "espalier/codec/hash.h"
#include "espalier/detail/catalog.h"
#include "espalier/format/features.h"

namespace espalier {
namespace {

constexpr std::uint64_t kNoFeatures = 0;

Header example() {
  return {.features = 0,
          .file_length = 5000,
          .index_length = 300,
          .index_hash = {0x0706050403020100u, 0x0F0E0D0C0B0A0908u},
          .tree_digest = {1, 2}};
}

using Bytes = std::array<std::byte, kHeaderBytes>;

// A header changed on purpose, its hash mended.
template <class T>
Bytes with(std::size_t at, T value) {
  Bytes bytes = encode_header(example());
  store_le(bytes.data() + at, value);
  store_le(bytes.data() + 120, hash64(ByteSpan(bytes).first(120)));
  return bytes;
}

void check_refused(ByteSpan bytes, ErrorCode code, std::uint64_t offset,
                   const Limits& limits = {}) {
  const auto header = decode_header(bytes, limits, kNoFeatures);
  REQUIRE_FALSE(header);
  CHECK(to_string(header.error().code) == to_string(code));
  CHECK(header.error().offset == offset);
}

TEST_CASE("A header comes back as it was encoded") {
  const Bytes bytes = encode_header(example());
  const auto header = decode_header(bytes, {}, kNoFeatures);
  REQUIRE(header);
  CHECK(header->file_length == 5000);
  CHECK(header->index_length == 300);
  CHECK(header->index_end() == 428);
  CHECK(header->index_hash == example().index_hash);
  CHECK(header->tree_digest == example().tree_digest);
}

TEST_CASE("A header's fields are at the format's offsets") {
  const Bytes bytes = encode_header(example());
  const unsigned char magic[] = {0x89, 0x45, 0x53, 0x50, 0x4C, 0x0D, 0x0A, 0x1A};
  CHECK(std::memcmp(bytes.data(), magic, 8) == 0);
  CHECK(load_le<std::uint16_t>(&bytes[8]) == 1);
  CHECK(load_le<std::uint16_t>(&bytes[10]) == 0);
  CHECK(load_le<std::uint64_t>(&bytes[24]) == 5000);
  CHECK(load_le<std::uint64_t>(&bytes[32]) == 128);
  CHECK(load_le<std::uint64_t>(&bytes[40]) == 300);
  CHECK(load_le<std::uint64_t>(&bytes[48]) == 0x0706050403020100u);
  CHECK(load_le<std::uint64_t>(&bytes[64]) == 1);
  CHECK(load_le<std::uint64_t>(&bytes[120]) == hash64(ByteSpan(bytes).first(120)));
}

TEST_CASE("Every damaged byte of a header is found") {
  for (std::size_t i = 0; i < kHeaderBytes; ++i) {
    Bytes bytes = encode_header(example());
    bytes[i] ^= std::byte{0x10};
    CAPTURE(i);
    const auto header = decode_header(bytes, {}, kNoFeatures);
    REQUIRE_FALSE(header);
    const ErrorCode expected = i < 8    ? ErrorCode::kNotACheckpoint
                               : i < 12 ? ErrorCode::kUnsupportedVersion
                                        : ErrorCode::kHeaderCorrupt;
    CHECK(to_string(header.error().code) == to_string(expected));
  }
}

TEST_CASE("A file cut short within its header is truncated, not foreign") {
  const Bytes bytes = encode_header(example());
  for (std::size_t size = 0; size < kHeaderBytes; ++size) {
    CAPTURE(size);
    check_refused(ByteSpan(bytes).first(size), ErrorCode::kTruncated, size);
  }
}

TEST_CASE("Other files are refused, and an interrupted save is recognised") {
  const std::vector<std::byte> text(200, std::byte{'x'});
  check_refused(text, ErrorCode::kNotACheckpoint, 0);
  const std::vector<std::byte> zeros(200);
  const auto header = decode_header(zeros, {}, kNoFeatures);
  REQUIRE_FALSE(header);
  CHECK(header.error().code == ErrorCode::kNotACheckpoint);
  CHECK(header.error().message.find("interrupted") != std::string::npos);
}

TEST_CASE("An intact header that contradicts itself is invalid") {
  check_refused(with(12, std::uint32_t{1}), ErrorCode::kHeaderInvalid, 12);
  for (std::size_t at = 80; at < 120; ++at) {
    CAPTURE(at);
    check_refused(with(at, std::uint8_t{1}), ErrorCode::kHeaderInvalid, 80);
  }
  check_refused(with(32, std::uint64_t{129}), ErrorCode::kHeaderInvalid, 32);
  check_refused(with(40, std::uint64_t{0}), ErrorCode::kHeaderInvalid, 40);
  check_refused(with(40, std::uint64_t{1} << 31), ErrorCode::kHeaderInvalid, 40);
  check_refused(with(40, ~std::uint64_t{0}), ErrorCode::kHeaderInvalid, 40);
  // One byte more than the file has; and exactly what it has.
  check_refused(with(40, std::uint64_t{5000 - 127}), ErrorCode::kHeaderInvalid, 40);
  CHECK(decode_header(with(40, std::uint64_t{5000 - 128}), {}, kNoFeatures));
}

TEST_CASE("Unknown versions and features are refused, known features are not") {
  check_refused(with(8, std::uint16_t{2}), ErrorCode::kUnsupportedVersion, 8);
  check_refused(with(8, std::uint16_t{0}), ErrorCode::kUnsupportedVersion, 8);
  check_refused(with(10, std::uint16_t{2}), ErrorCode::kUnsupportedVersion, 8);
  // Another version's header may be shorter.
  const auto newer = with(8, std::uint16_t{2});
  for (std::size_t size = 12; size < kHeaderBytes; ++size) {
    CAPTURE(size);
    check_refused(ByteSpan(newer).first(size), ErrorCode::kUnsupportedVersion, 8);
  }
  for (unsigned bit = 0; bit < 64; ++bit) {
    CAPTURE(bit);
    check_refused(with(16, std::uint64_t{1} << bit), ErrorCode::kUnsupportedFeature, 16);
  }
  const auto known = decode_header(with(16, std::uint64_t{1}), {}, 1);
  REQUIRE(known);
  CHECK(known->features == 1);
}

TEST_CASE("A header has the lowest version that has its features") {
  check_refused(with(10, std::uint16_t{1}), ErrorCode::kHeaderInvalid, 10);
  Header header = example();
  header.features = kFeatureOtherFiles;
  Bytes bytes = encode_header(header);
  CHECK(load_le<std::uint16_t>(&bytes[10]) == 1);
  const auto decoded = decode_header(bytes, {}, kFeatureOtherFiles);
  REQUIRE(decoded);
  CHECK(decoded->minor == 1);
  check_refused(bytes, ErrorCode::kUnsupportedFeature, 16);
  store_le(bytes.data() + 10, std::uint16_t{0});
  store_le(bytes.data() + 120, hash64(ByteSpan(bytes).first(120)));
  CHECK(decode_header(bytes, {}, kFeatureOtherFiles).error().code == ErrorCode::kHeaderInvalid);
}

TEST_CASE("An index over the limit is refused before anything is allocated") {
  Limits limits;
  limits.index_bytes = 299;
  check_refused(encode_header(example()), ErrorCode::kLimitExceeded, 40, limits);
  limits.index_bytes = 300;
  CHECK(decode_header(encode_header(example()), limits, kNoFeatures));
}

TEST_CASE("The file has exactly the recorded length") {
  CHECK(check_file_length(example(), 5000));
  const auto shorter = check_file_length(example(), 4999);
  REQUIRE_FALSE(shorter);
  CHECK(shorter.error().code == ErrorCode::kTruncated);
  CHECK(shorter.error().offset == 4999);
  const auto longer = check_file_length(example(), 5001);
  REQUIRE_FALSE(longer);
  CHECK(longer.error().code == ErrorCode::kTrailingBytes);
  CHECK(longer.error().offset == 5000);
}

}  // namespace
}  // namespace espalier
