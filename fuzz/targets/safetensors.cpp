// Opens a safetensors file, with the usual limits, with tight ones and nested, and reads every
// tensor of it.
#include "fuzz.h"
#include "support/memory_file.h"

#include "espalier/codec/hash.h"
#include "espalier/foreign/safetensors/opener.h"

namespace espalier::fuzz {
namespace {

Result<Checkpoint> open(ByteSpan file, const Limits& limits, bool nest = false) {
  SafetensorsOpener opener({.file_size = file.size(), .limits = limits, .nest = nest});
  if (auto ok = opener.feed({0, 0, file.size()}, file); !ok) return propagate(ok);
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
  if (!checkpoint) return 0;
  fuzz::visit(*checkpoint);
  const auto nested = fuzz::open(file, {}, true);
  fuzz::require(nested.has_value(), "a file that opens does not open nested");
  fuzz::visit(*nested);
  std::uint64_t bytes = 0;
  for (std::uint32_t i = 0; i < checkpoint->tensor_count(); ++i) {
    const auto tensor = testing::read_tensor(file, checkpoint->tensor(i));
    fuzz::require(tensor.has_value(), "a tensor of a file without hashes cannot be read");
    bytes += tensor->size();
  }
  // The specification forbids holes and overlaps.
  fuzz::require(checkpoint->catalog().data_begin() + bytes == size, "tensors do not fill the file");
  return 0;
}
