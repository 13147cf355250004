#include "espalier/foreign/safetensors/opener.h"

#include <algorithm>
#include <string>
#include <utility>

#include "espalier/base/arena.h"
#include "espalier/base/counted.h"
#include "espalier/base/little_endian.h"
#include "espalier/detail/catalog.h"
#include "espalier/foreign/safetensors/format.h"
#include "espalier/foreign/safetensors/header.h"
#include "espalier/foreign/safetensors/tables.h"
#include "espalier/format/foreign_parts.h"
#include "espalier/format/header.h"
#include "espalier/read/opening_machine.h"

namespace espalier {
namespace {

// The shortest header: {}
constexpr std::uint64_t kMinHeaderBytes = 2;
// Texts have 32-bit offsets, whatever the limits say.
constexpr std::uint64_t kMaxHeaderBytes = (std::uint64_t{1} << 32) - 1;
// A length below this and a brace after it begin no valid file of another format: GGUF has its
// version in the upper half, a zip archive no method 123, and a msgpack map no key twice.
constexpr std::uint64_t kNoOtherFormat = std::uint64_t{1} << 31;

bool has_brace(ByteSpan front) {
  return front.size() > kSafetensorsLengthBytes && front[kSafetensorsLengthBytes] == std::byte{'{'};
}

}  // namespace

bool is_safetensors(ByteSpan front, std::uint64_t) {
  return has_brace(front) && load_le<std::uint64_t>(front.data()) < kNoOtherFormat;
}

bool looks_like_safetensors(ByteSpan front, std::uint64_t file_size) {
  if (front.size() <= kSafetensorsLengthBytes || has_magic(front)) return false;
  const auto header = load_le<std::uint64_t>(front.data());
  if (has_brace(front)) {
    // But for a text, such as {"data":{}}: eight bytes from 1 to 127 before the brace.
    constexpr std::uint64_t kOnes = 0x0101'0101'0101'0101;
    return ((header | (header - kOnes)) & kOnes << 7) != 0;
  }
  return header >= kMinHeaderBytes && header <= Limits{}.foreign_header_bytes &&
         header <= file_size - kSafetensorsLengthBytes;
}

SafetensorsOpener::SafetensorsOpener(const OpenOptions& options) : HeadOpener(options) {
  if (options.file_size >= kSafetensorsLengthBytes + kMinHeaderBytes) return;
  fail_at_once({ErrorCode::kSafetensorsInvalid,
                0,
                {},
                "the file has " + counted(options.file_size, "byte") +
                    ", fewer than the smallest safetensors file"});
}

Result<HeadOpener::Body> SafetensorsOpener::read_front(ByteSpan front) {
  const auto length = load_le<std::uint64_t>(front.data());
  if (length < kMinHeaderBytes) {
    return fail(ErrorCode::kSafetensorsInvalid,
                "the header's length is " + std::to_string(length) + ", too small for a header", 0);
  }
  // Check the file's size first: this rejects most files that are not safetensors files.
  const std::uint64_t room = options().file_size - kSafetensorsLengthBytes;
  if (length > room) {
    return fail(ErrorCode::kSafetensorsInvalid,
                "the header's length is " + std::to_string(length) + " and the file has only " +
                    counted(room, "byte") +
                    " after it, so it is truncated or not a safetensors file",
                0);
  }
  const std::uint64_t limit = std::min(options().limits.foreign_header_bytes, kMaxHeaderBytes);
  if (length > limit) {
    return fail(ErrorCode::kLimitExceeded,
                "the header has " + counted(length, "byte") +
                    " and Limits::foreign_header_bytes allows " + std::to_string(limit),
                0);
  }
  // One more byte, which ends the text for the JSON reader.
  return Body{kSafetensorsLengthBytes, length, length + 1};
}

Result<Checkpoint> SafetensorsOpener::open_body(Arena body) {
  const std::span<char> json(reinterpret_cast<char*>(body.bytes().data()), body.bytes().size());
  const std::uint64_t length = json.size() - 1;
  auto header = parse_safetensors_header(json, options().limits);
  if (!header) return propagate(header);
  auto tables =
      safetensors_tables(*header, json.data(), length, options().file_size, options().limits);
  if (!tables) return propagate(tables);
  auto catalog = Catalog::from_foreign(
      {.format = &kSafetensorsFormat,
       .tables = std::move(*tables),
       .files = {{.length = options().file_size, .data_begin = kSafetensorsLengthBytes + length}},
       .nest = options().nest},
      options().limits);
  if (!catalog) return propagate(catalog);
  return Checkpoint(std::move(*catalog));
}

}  // namespace espalier
