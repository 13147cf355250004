// Opens a msgpack file, with the usual limits, with tight ones, in pieces and nested, and reads
// every tensor of it.
#include <algorithm>

#include "fuzz.h"
#include "support/feed.h"
#include "support/memory_file.h"

#include "espalier/foreign/msgpack/opener.h"

namespace espalier::fuzz {
namespace {

Result<Checkpoint> open(ByteSpan file, const Drive& drive) {
  MsgpackOpener opener({.file_size = file.size(), .limits = drive.limits, .nest = drive.nest});
  if (auto ok = testing::feed_steps(opener, file, drive.piece); !ok) return propagate(ok);
  return opener.finish();
}

}  // namespace
}  // namespace espalier::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace espalier;
  const auto file = fuzz::copy_input(data, size);
  (void)looks_like_msgpack(file, file.size());
  (void)fuzz::check_opening(file,
                            [&](const fuzz::Drive& drive) { return fuzz::open(file, drive); });
  return 0;
}
