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

Result<Checkpoint> open(ByteSpan file, const Limits& limits, bool nest = false,
                        std::uint64_t piece = ~std::uint64_t{0}) {
  const std::vector<std::byte> second = second_of(file);
  GgufOpener opener(
      {.file_size = file.size(), .limits = limits, .nest = nest, .name = "m-00001-of-00002.gguf"});
  while (!opener.needs().empty() || !opener.wants().empty()) {
    if (!opener.wants().empty()) {
      if (auto ok = opener.answer(opener.wants().front().number, second.size()); !ok) {
        return propagate(ok);
      }
      continue;
    }
    Extent extent = opener.needs().front();
    extent.length = std::min(extent.length, piece);
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
  const auto checkpoint = fuzz::open(file, {});
  testing::Random random(hash128(file).low);
  fuzz::check_limited(checkpoint, fuzz::open(file, fuzz::tight_limits(random)));
  const auto pieces = fuzz::open(file, {}, false, 1 + random.below(size + 1));
  fuzz::require(pieces.has_value() == checkpoint.has_value(), "pieces change whether a file opens");
  fuzz::require(checkpoint || pieces.error() == checkpoint.error(), "pieces change an error");
  if (!checkpoint) return 0;
  fuzz::visit(*checkpoint);
  const auto nested = fuzz::open(file, {}, true);
  fuzz::require(nested.has_value(), "a file that opens does not open nested");
  fuzz::visit(*nested);
  for (std::uint32_t i = 0; i < checkpoint->tensor_count(); ++i) {
    const auto tensor = testing::read_tensor(file, checkpoint->tensor(i));
    fuzz::require(tensor.has_value(), "a tensor of a file without hashes cannot be read");
  }
  return 0;
}
