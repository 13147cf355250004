#include "espalier/foreign/msgpack/opener.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "espalier/base/utf8.h"
#include "espalier/detail/catalog.h"
#include "espalier/foreign/msgpack/format.h"
#include "espalier/foreign/msgpack/tables.h"
#include "espalier/format/foreign_parts.h"
#include "espalier/read/opening_machine.h"

namespace espalier {
namespace {

// What follows a large array is short, as a rule; where it is not, windows grow.
constexpr std::uint64_t kMaxWindow = std::uint64_t{4} << 20;

std::uint64_t number(ByteSpan bytes) {
  std::uint64_t value = 0;
  for (const std::byte byte : bytes) value = value << 8 | static_cast<std::uint8_t>(byte);
  return value;
}

}  // namespace

// A pickle begins with an empty map, as its protocol is 0x80, and one that was cut may have no
// more; other files with a first key that is no text or, like the length of a safetensors header,
// has zeros.
bool looks_like_msgpack(ByteSpan front, std::uint64_t) {
  const auto byte = [&](std::size_t i) { return static_cast<std::uint8_t>(front[i]); };
  if (front.empty()) return false;
  const bool is_short = byte(0) >= 0x81 && byte(0) <= 0x8F;
  if (!is_short && byte(0) != 0xDE && byte(0) != 0xDF) return false;
  std::size_t at = is_short ? 1 : (byte(0) == 0xDE ? 3 : 5);
  if (front.size() <= at) return false;
  const std::uint8_t head = byte(at++);
  std::uint64_t length = head & 0x1Fu;
  if (head >= 0xD9 && head <= 0xDB) {
    const std::size_t width = std::size_t{1} << (head - 0xD9);
    if (front.size() - at < width) return false;
    length = number(front.subspan(at, width));
    at += width;
  } else if ((head & 0xE0u) != 0xA0) {
    return false;
  }
  if (length == 0 || length >= front.size() - at) return false;
  const std::string_view key = as_text(front.subspan(at, static_cast<std::size_t>(length)));
  return !find_invalid_utf8(key) && std::none_of(key.begin(), key.end(), [](char c) {
    return static_cast<unsigned char>(c) < 0x20;
  }) && byte(at + static_cast<std::size_t>(length)) != 0xC1;
}

MsgpackOpener::MsgpackOpener(const OpenOptions& options)
    : StepOpener(options),
      parser_(options.file_size, options.limits),
      beside_({[this](const Extent& extent, MutableByteSpan to) { want(extent, to); },
               [this](std::vector<std::string> names) {
                 return want_files(std::move(names), FilePlace::kBelow);
               },
               &files()},
              options.name, this->options().limits) {}

Result<void> MsgpackOpener::step() {
  if (!is_parsed_) {
    if (auto ok = parse(); !ok || !is_parsed_) return ok;
    beside_.begin(parser_.tree());
  }
  return beside_.step();
}

Result<void> MsgpackOpener::parse() {
  const ByteSpan window = is_begun_ ? ByteSpan(window_) : front();
  const std::uint64_t end = parser_.position() + window.size();
  is_begun_ = true;
  const auto is_done = parser_.parse(window);
  if (!is_done) return propagate(is_done);
  is_parsed_ = *is_done;
  if (is_parsed_) return {};
  // The window ended inside plain objects: more of them may follow.
  const std::uint64_t usual = parser_.position() <= end
                                  ? std::min<std::uint64_t>(8 * window.size(), kMaxWindow)
                                  : kFirstReadBytes;
  const std::uint64_t length =
      std::min(std::max(usual, parser_.needed()), options().file_size - parser_.position());
  window_.assign(static_cast<std::size_t>(length), std::byte{});
  want({0, parser_.position(), length}, window_);
  return {};
}

Result<Checkpoint> MsgpackOpener::build() {
  ForeignParts parts{.format = &kMsgpackFormat, .tables = {}, .files = {}, .nest = options().nest};
  if (auto ok = beside_.build(files(), parts.notes); !ok) return propagate(ok);
  auto tables = msgpack_tables(parser_.tree(), options().limits, beside_, parts.notes);
  if (!tables) return propagate(tables);
  parts.tables = std::move(*tables);
  parts.files = std::move(files());
  if (beside_.damage()) parts.files.push_back({.problem = std::move(beside_.damage())});
  auto catalog = Catalog::from_foreign(std::move(parts), options().limits);
  if (!catalog) return propagate(catalog);
  return Checkpoint(std::move(*catalog));
}

}  // namespace espalier
