#include "espalier/foreign/any_opener.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>

#include "espalier/foreign/common/stranger.h"
#include "espalier/foreign/formats.h"
#include "espalier/foreign/unknown_format.h"
#include "espalier/format/header.h"

namespace espalier {
namespace {

bool begins_like_ours(ByteSpan front) {
  return std::memcmp(front.data(), kMagic.data(), std::min(front.size(), kMagic.size())) == 0;
}

bool is_zero(ByteSpan front) {
  return std::all_of(front.begin(), front.end(),
                     [](std::byte byte) { return byte == std::byte{0}; });
}

}  // namespace

const FileKind* kind_of(ByteSpan front, std::uint64_t file_size, std::string_view name) {
  for (const FileKind& kind : file_kinds()) {
    if (!kind.is_begun_by(front, file_size)) continue;
    if (!kind.is_guess || describe_stranger(front, name).empty()) return &kind;
  }
  return nullptr;
}

AnyOpener::AnyOpener(const OpenOptions& options)
    : name_(options.name),
      options_(options),
      front_({{0, 0, std::min(options.file_size, kFirstReadBytes)}}) {
  options_.name = name_;
  // An empty file has nothing to feed: our own format's opener reports it.
  if (options_.file_size == 0) opener_ = make_own_opener(options_);
}

const WantedFiles* AnyOpener::wanted_files() const {
  return opener_ ? opener_->wanted_files() : nullptr;
}

Result<void> AnyOpener::answer(std::uint32_t number, const Result<std::uint64_t>& size) {
  return opener_ ? opener_->answer(number, size) : OpeningMachine::answer(number, size);
}

std::span<const Extent> AnyOpener::needs() const {
  return opener_ ? opener_->needs() : front_.needs();
}

Result<void> AnyOpener::feed(const Extent& extent, ByteSpan bytes) {
  if (opener_) return opener_->feed(extent, bytes);
  auto fed = front_.feed(extent, bytes, [&](std::size_t, ByteSpan front) { return choose(front); });
  // The same bytes may hold more than the front, for example if a whole mapped file is fed at once.
  if (fed && opener_ && !needs().empty()) return opener_->feed(extent, bytes);
  return fed;
}

Result<void> AnyOpener::choose(ByteSpan front) {
  // A file that no other format begins like is opened as an Espalier file.
  const FileKind* const kind = kind_of(front, options_.file_size, name_);
  opener_ = kind != nullptr ? kind->make(options_) : make_own_opener(options_);
  if (!opener_) return fail(ErrorCode::kNotACheckpoint, "no format of this module");
  auto fed = opener_->feed({0, 0, front.size()}, front);
  if (!fed && kind == nullptr && !begins_like_ours(front)) {
    const std::string_view what = describe_stranger(front, name_);
    // The opener says what zeros are. A file of another format may be all zeros by its name alone.
    if (what.empty() && is_zero(front)) return fed;
    fed.error().message = unknown_format(what);
  }
  return fed;
}

Result<Checkpoint> AnyOpener::finish() {
  if (opener_) return opener_->finish();
  return fail(ErrorCode::kIncomplete, "the opener still needs bytes of the file");
}

}  // namespace espalier
