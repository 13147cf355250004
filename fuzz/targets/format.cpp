// Opens a file of one format, with the usual limits, with tight ones, in pieces and nested, and
// reads every tensor of it. Compiled for each format that has no target of its own.
#include <algorithm>

#include "fuzz.h"
#include "support/feed.h"
#include "support/memory_file.h"

#include "espalier/foreign/formats.h"

namespace espalier::fuzz {
namespace {

const FileKind& kind() {
  const auto kinds = file_kinds();
  const auto found = std::find_if(kinds.begin(), kinds.end(), [](const FileKind& kind) {
    return !kind.format.empty() && kind.format.front().name == ESPALIER_FUZZ_FORMAT;
  });
  require(found != kinds.end(), "no format has this name");
  return *found;
}

Result<Checkpoint> open(ByteSpan file, const Drive& drive) {
  const auto opener =
      kind().make({.file_size = file.size(), .limits = drive.limits, .nest = drive.nest});
  while (!opener->needs().empty() || !opener->wants().empty()) {
    if (!opener->wants().empty()) {
      // Each further file is the same one again.
      auto ok = opener->answer(opener->wants().front().number, file.size());
      if (!ok) return propagate(ok);
      continue;
    }
    Extent extent = opener->needs().front();
    extent.length = std::min(extent.length, drive.piece);
    if (auto ok = opener->feed(extent, testing::bytes_at(file, extent)); !ok) return propagate(ok);
  }
  return opener->finish();
}

}  // namespace
}  // namespace espalier::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace espalier;
  const auto file = fuzz::copy_input(data, size);
  (void)fuzz::kind().is_begun_by(file, file.size());
  (void)fuzz::check_opening(file,
                            [&](const fuzz::Drive& drive) { return fuzz::open(file, drive); });
  return 0;
}
