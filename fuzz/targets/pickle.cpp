// Opens a pickle: a file of PyTorch before 1.6, a plain one, or the .metadata of a distributed
// checkpoint; with the usual limits, with tight ones, in pieces and nested, and reads every tensor
// of it.
#include <algorithm>

#include "fuzz.h"
#include "support/feed.h"
#include "support/memory_file.h"

#include "espalier/foreign/dcp/metadata.h"
#include "espalier/foreign/torch/pickle_opener.h"

namespace espalier::fuzz {
namespace {

Result<Checkpoint> open(ByteSpan file, const Limits& limits, bool nest = false,
                        std::uint64_t step = ~std::uint64_t{0}) {
  PickleOpener opener({.file_size = file.size(), .limits = limits, .nest = nest});
  if (auto ok = testing::feed_steps(opener, file, step); !ok) return propagate(ok);
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
  const auto checkpoint = fuzz::open(file, {});
  testing::Random random(hash128(file).low);
  fuzz::check_limited(checkpoint, fuzz::open(file, fuzz::tight_limits(random)));
  const auto in_pieces = fuzz::open(file, {}, false, 1 + random.below(100));
  fuzz::require(checkpoint.has_value() == in_pieces.has_value(), "pieces change the verdict");
  if (!checkpoint) {
    fuzz::require(checkpoint.error() == in_pieces.error(), "pieces change the error");
    return 0;
  }
  fuzz::visit(*checkpoint);
  const auto nested = fuzz::open(file, {}, true);
  fuzz::require(nested.has_value(), "a file that opens does not open nested");
  fuzz::visit(*nested);
  if (!fuzz::is_one_file(*checkpoint)) return 0;
  for (std::uint32_t i = 0; i < checkpoint->tensor_count(); ++i) {
    const TensorRef tensor = checkpoint->tensor(i);
    if (tensor.is_placeholder()) continue;
    fuzz::require(testing::read_tensor(file, tensor).has_value(),
                  "a tensor of a file without hashes cannot be read");
  }
  return 0;
}
