// Opens a file fed whole, in steps, and in scrambled pieces: the verdict must be the same.
#include "fuzz.h"
#include "support/feed.h"

#include "espalier/codec/hash.h"
#include "espalier/foreign/any_opener.h"

namespace espalier::fuzz {
namespace {

template <class Feed>
Result<Checkpoint> open_fed(ByteSpan file, const Feed& feed) {
  AnyOpener opener({.file_size = file.size()});
  if (auto ok = feed(opener); !ok) return propagate(ok);
  return opener.finish();
}

void compare(const Result<Checkpoint>& a, const Result<Checkpoint>& b) {
  require(a.has_value() == b.has_value(), "how a file is fed changes whether it opens");
  if (!a) {
    require(a.error().code == b.error().code, "how a file is fed changes the error");
    require(a.error().offset == b.error().offset, "how a file is fed changes the error's offset");
    require(a.error().path == b.error().path, "how a file is fed changes the error's path");
    return;
  }
  require(a->tensor_count() == b->tensor_count(), "how a file is fed changes what it holds");
}

}  // namespace
}  // namespace espalier::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace espalier;
  const auto file = fuzz::copy_input(data, size);
  testing::Random random(hash128(file).low);
  const auto whole = fuzz::open_any(file);
  fuzz::compare(whole, fuzz::open_fed(file, [&](AnyOpener& opener) {
                  return testing::feed_steps(opener, file, 1 + random.below(1 + size / 2));
                }));
  fuzz::compare(whole, fuzz::open_fed(file, [&](AnyOpener& opener) {
                  return testing::feed_scrambled(opener, file, random);
                }));
  return 0;
}
