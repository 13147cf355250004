// Reads every tensor of a file, whole and in part. What could be opened can be read, unless the
// tensors' bytes themselves are damaged.
#include <algorithm>

#include "fuzz.h"
#include "support/memory_file.h"

#include "espalier/read/fetch.h"

namespace espalier::fuzz {
namespace {

void check_error(const Error& error) {
  require(error.code == ErrorCode::kChunkCorrupt, "what could be opened cannot be read");
}

// Every second row, which must be the same as in the whole.
void read_rows(ByteSpan file, const TensorRef& tensor, ByteSpan whole) {
  const auto shape = tensor.shape();
  if (shape.empty() || shape[0] < 2 || whole.empty() || whole.size() % shape[0] != 0) return;
  const Slice odd{.start = 1, .step = 2};
  const auto rows = testing::read_tensor(file, tensor, std::span(&odd, 1));
  if (!rows) {
    // Narrow elements and blocks cannot be cut everywhere.
    if (rows.error().code != ErrorCode::kInvalidSlice) check_error(rows.error());
    return;
  }
  if (dtype_bits(tensor.dtype()) % 8 != 0) return;
  const auto row = static_cast<std::size_t>(whole.size() / shape[0]);
  for (std::size_t i = 0; (i + 1) * row <= rows->size(); ++i) {
    require(std::ranges::equal(ByteSpan(*rows).subspan(i * row, row),
                               whole.subspan((2 * i + 1) * row, row)),
            "a slice differs from the whole");
  }
}

}  // namespace
}  // namespace espalier::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace espalier;
  const auto file = fuzz::copy_input(data, size);
  const auto checkpoint = fuzz::open_any(file);
  if (!checkpoint) return 0;
  for (std::uint32_t i = 0; i < checkpoint->tensor_count(); ++i) {
    const TensorRef tensor = checkpoint->tensor(i);
    if (tensor.is_placeholder()) continue;
    const auto whole = testing::read_tensor(file, tensor);
    if (!whole) {
      fuzz::check_error(whole.error());
      continue;
    }
    fuzz::require(whole->size() == tensor.bytes(), "a tensor has another size");
    fuzz::read_rows(file, tensor, *whole);
  }
  return 0;
}
