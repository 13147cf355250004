#include "espalier/foreign/any_opener.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>

#include "espalier/foreign/safetensors/opener.h"
#include "espalier/foreign/stranger.h"
#include "espalier/format/header.h"
#include "espalier/read/opener.h"

namespace espalier {
namespace {

template <class Machine>
std::unique_ptr<OpeningMachine> make(const OpenOptions& options) {
  return std::make_unique<Machine>(options);
}

// The other formats. A file that matches none of them is opened as an Espalier file.
struct Format {
  bool (*is_begun_by)(ByteSpan front, std::uint64_t file_size);
  std::unique_ptr<OpeningMachine> (*make)(const OpenOptions& options);
};
constexpr Format kFormats[] = {
    {looks_like_safetensors, make<SafetensorsOpener>},
};

constexpr std::string_view kUnknown =
    "check that this is the right file and that its download is complete";

bool looks_like_nothing(ByteSpan front) {
  const std::size_t compared = std::min(front.size(), kMagic.size());
  const bool zeros =
      std::all_of(front.begin(), front.end(), [](std::byte byte) { return byte == std::byte{0}; });
  return std::memcmp(front.data(), kMagic.data(), compared) != 0 && !zeros;
}

}  // namespace

AnyOpener::AnyOpener(const OpenOptions& options)
    : options_(options), front_({{0, 0, std::min(options.file_size, kFirstReadBytes)}}) {
  // An empty file has nothing to feed: our own format's opener reports it.
  if (options_.file_size == 0) opener_ = make<Opener>(options_);
}

std::span<const WantedFile> AnyOpener::wants() const {
  return opener_ ? opener_->wants() : std::span<const WantedFile>();
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
  const auto* format = std::find_if(
      std::begin(kFormats), std::end(kFormats),
      [&](const Format& candidate) { return candidate.is_begun_by(front, options_.file_size); });
  const bool is_foreign = format != std::end(kFormats);
  opener_ = is_foreign ? format->make(options_) : make<Opener>(options_);
  auto fed = opener_->feed({0, 0, front.size()}, front);
  if (!fed && !is_foreign && looks_like_nothing(front)) {
    const std::string_view what = describe_stranger(front);
    fed.error().message = "neither an Espalier nor a safetensors file; ";
    fed.error().message += what.empty() ? kUnknown : what;
  }
  return fed;
}

Result<Checkpoint> AnyOpener::finish() {
  if (opener_) return opener_->finish();
  return fail(ErrorCode::kIncomplete, "the opener still needs bytes of the file");
}

}  // namespace espalier
