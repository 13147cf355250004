// Opens a pickle: a file of PyTorch before 1.6, a plain one, or the .metadata of a distributed
// checkpoint; with the usual limits, with tight ones, in pieces and nested, and reads every tensor
// of it.
#include "fuzz.h"
#include "support/feed.h"

#include "espalier/foreign/dcp/metadata.h"
#include "espalier/foreign/torch/pickle_opener.h"

namespace espalier::fuzz {
namespace {

Result<Checkpoint> open(ByteSpan file, const Drive& drive) {
  PickleOpener opener({.file_size = file.size(), .limits = drive.limits, .nest = drive.nest});
  if (auto ok = testing::feed_steps(opener, file, drive.piece); !ok) return propagate(ok);
  return opener.finish();
}

}  // namespace
}  // namespace espalier::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace espalier;
  const auto file = fuzz::copy_input(data, size);
  (void)looks_like_pickle(file, file.size());
  if (looks_like_dcp(file, file.size())) {
    Notes notes;
    (void)read_dcp_metadata(file, {}, notes);
  }
  (void)fuzz::check_opening(file,
                            [&](const fuzz::Drive& drive) { return fuzz::open(file, drive); });
  return 0;
}
