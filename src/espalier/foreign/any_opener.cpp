#include "espalier/foreign/any_opener.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "espalier/format/header.h"

namespace espalier {
namespace {

constexpr std::size_t kLengthBytes = 8;

// safetensors has no magic: a header length that fits the file, and usually a brace after it. One
// of the two is enough, so that a damaged file is reported as what it is.
bool looks_like_safetensors(ByteSpan front, std::uint64_t file_size) {
  if (front.size() <= kLengthBytes || has_magic(front)) return false;
  const auto header = load_le<std::uint64_t>(front.data());
  return front[kLengthBytes] == std::byte{'{'} ||
         (header >= 2 && header <= file_size - kLengthBytes);
}

// How files begin that people take for checkpoints, and what to say of them.
struct Foreign {
  std::string_view begins;
  std::string_view what;
};
constexpr Foreign kForeign[] = {
    {"PK\x03\x04", "it is a zip archive, as PyTorch and numpy write them"},
    {"GGUF", "it is a GGUF file"},
    {"\x93NUMPY", "it is a numpy array"},
    {"\x89HDF", "it is an HDF5 file"},
    {"\x1f\x8b", "it is compressed with gzip: unpack it first"},
    {"\x80\x02", "it looks like a pickle, which can run code when it is loaded"},
    {"\x80\x03", "it looks like a pickle, which can run code when it is loaded"},
    {"\x80\x04", "it looks like a pickle, which can run code when it is loaded"},
    {"\x80\x05", "it looks like a pickle, which can run code when it is loaded"},
    {"version https://git-lfs", "it stands for a file in Git LFS: 'git lfs pull' fetches it"},
    {"<", "it looks like a web page, not like what was to be downloaded"},
    {"{", "it looks like JSON, which may say why a download failed"},
};

std::string_view describe_foreign(ByteSpan front) {
  for (const Foreign& foreign : kForeign) {
    if (as_text(front).starts_with(foreign.begins)) return foreign.what;
  }
  return "check that this is the right file and that its download was complete";
}

bool looks_like_nothing(ByteSpan front) {
  const std::size_t compared = std::min(front.size(), kMagic.size());
  const bool zeros =
      std::all_of(front.begin(), front.end(), [](std::byte byte) { return byte == std::byte{0}; });
  return std::memcmp(front.data(), kMagic.data(), compared) != 0 && !zeros;
}

}  // namespace

AnyOpener::AnyOpener(OpenOptions options)
    : options_(options), front_({{0, 0, std::min(options.file_size, kFirstReadBytes)}}) {
  // Nothing to feed: the opener of our own format has the words for it.
  if (options_.file_size == 0) opener_.emplace<Opener>(options_);
}

std::span<const Extent> AnyOpener::needs() const {
  if (const auto* opener = std::get_if<Opener>(&opener_)) return opener->needs();
  if (const auto* opener = std::get_if<SafetensorsOpener>(&opener_)) return opener->needs();
  return front_.needs();
}

Result<void> AnyOpener::feed(const Extent& extent, ByteSpan bytes) {
  if (auto* opener = std::get_if<Opener>(&opener_)) return opener->feed(extent, bytes);
  if (auto* opener = std::get_if<SafetensorsOpener>(&opener_)) return opener->feed(extent, bytes);
  auto fed = front_.feed(extent, bytes, [&](std::size_t, ByteSpan front) {
    const Extent whole{0, 0, front.size()};
    if (looks_like_safetensors(front, options_.file_size)) {
      return opener_.emplace<SafetensorsOpener>(options_).feed(whole, front);
    }
    auto ours = opener_.emplace<Opener>(options_).feed(whole, front);
    if (!ours && looks_like_nothing(front)) {
      ours.error().message =
          "neither an Espalier nor a safetensors file; " + std::string(describe_foreign(front));
    }
    return ours;
  });
  // The same bytes may hold more than the front, as when a whole mapped file is fed at once.
  if (fed && !std::holds_alternative<std::monostate>(opener_) && !needs().empty()) {
    return feed(extent, bytes);
  }
  return fed;
}

Result<Checkpoint> AnyOpener::finish() {
  if (auto* opener = std::get_if<Opener>(&opener_)) return opener->finish();
  if (auto* opener = std::get_if<SafetensorsOpener>(&opener_)) return opener->finish();
  return fail(ErrorCode::kIncomplete, "the opener still needs bytes of the file");
}

}  // namespace espalier
