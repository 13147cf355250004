// Opens a GGUF file, with the usual limits, with tight ones, nested and in small pieces, and reads
// every tensor of it.
#include <algorithm>
#include <string_view>
#include <vector>

#include "fuzz.h"
#include "support/feed.h"
#include "support/memory_file.h"

#include "espalier/foreign/gguf/opener.h"

namespace espalier::fuzz {
namespace {

// The same file as the second one of a model.
std::vector<std::byte> second_of(ByteSpan file) {
  std::vector<std::byte> second(file.begin(), file.end());
  constexpr std::string_view kNumber = "split.no";
  const std::size_t at = as_text(file).find(kNumber);
  const std::size_t value = at + kNumber.size() + 4;
  if (at != std::string_view::npos && value < second.size()) second[value] = std::byte{1};
  return second;
}

Result<Checkpoint> open(ByteSpan file, const Drive& drive) {
  const std::vector<std::byte> second = second_of(file);
  GgufOpener opener({.file_size = file.size(),
                     .limits = drive.limits,
                     .nest = drive.nest,
                     .name = "m-00001-of-00002.gguf"});
  while (!opener.needs().empty() || !opener.wants().empty()) {
    if (!opener.wants().empty()) {
      if (auto ok = opener.answer(opener.wants().front().number, second.size()); !ok) {
        return propagate(ok);
      }
      continue;
    }
    Extent extent = opener.needs().front();
    extent.length = std::min(extent.length, drive.piece);
    const ByteSpan from = extent.file == 0 ? file : ByteSpan(second);
    if (auto ok = opener.feed(extent, testing::bytes_at(from, extent)); !ok) return propagate(ok);
  }
  return opener.finish();
}

}  // namespace
}  // namespace espalier::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace espalier;
  const auto file = fuzz::copy_input(data, size);
  (void)fuzz::check_opening(file,
                            [&](const fuzz::Drive& drive) { return fuzz::open(file, drive); });
  return 0;
}
