// Reads every tensor of a file, whole and a slice of it. A file that opens must be readable, unless
// the tensors' bytes are damaged.
#include <algorithm>
#include <optional>
#include <vector>

#include "fuzz.h"
#include "support/memory_file.h"

#include "espalier/codec/hash.h"
#include "espalier/format/digest.h"

namespace espalier::fuzz {
namespace {

using Axis = std::vector<std::uint64_t>;  // the indices that a slice selects

Slice random_slice(testing::Random& random, std::uint64_t length) {
  const auto end = static_cast<std::int64_t>(std::min<std::uint64_t>(length, 1u << 20)) + 2;
  Slice slice;
  if (!random.one_in(3)) slice.start = random.between(-end, end);
  if (!random.one_in(3)) slice.stop = random.between(-end, end);
  slice.step = random.one_in(50) ? 0 : random.between(1, 4);
  return slice;
}

// Slices like Python, one index at a time.
Axis selected(const Slice& slice, std::uint64_t length) {
  const auto end = static_cast<std::int64_t>(length);
  const auto place = [&](std::int64_t index) { return index < 0 ? index + end : index; };
  Axis indices;
  for (std::int64_t i = std::max<std::int64_t>(place(slice.start.value_or(0)), 0);
       i < std::min(place(slice.stop.value_or(end)), end); i += slice.step) {
    indices.push_back(static_cast<std::uint64_t>(i));
  }
  return indices;
}

// The bytes of the elements at `axes`, in order.
std::vector<std::byte> pick(ByteSpan whole, std::span<const std::uint64_t> shape,
                            std::span<const Axis> axes, std::size_t element) {
  if (shape.empty()) return {whole.begin(), whole.end()};
  std::vector<std::byte> picked;
  const std::size_t stride = whole.size() / static_cast<std::size_t>(shape[0]);
  for (const std::uint64_t i : axes[0]) {
    const auto part = pick(whole.subspan(static_cast<std::size_t>(i) * stride, stride),
                           shape.subspan(1), axes.subspan(1), element);
    picked.insert(picked.end(), part.begin(), part.end());
  }
  return picked;
}

void read_slice(ByteSpan file, const TensorRef& tensor, ByteSpan whole, testing::Random& random) {
  const auto shape = tensor.shape();
  std::vector<Slice> slices;
  const std::size_t given = shape.size() + (random.one_in(50) ? 1 : 0);
  bool is_valid = given == shape.size();
  std::vector<Axis> axes;
  for (std::size_t i = 0; i < given; ++i) {
    const std::uint64_t length = i < shape.size() ? shape[i] : 1;
    slices.push_back(random_slice(random, length));
    is_valid = is_valid && slices.back().step > 0;
    // Only an empty tensor has absurd lengths.
    if (is_valid && !whole.empty()) axes.push_back(selected(slices.back(), length));
  }
  const auto read = testing::read_tensor(file, tensor, slices);
  const bool is_narrow = dtype_bits(tensor.dtype()) % 8 != 0 || tensor.dtype() == DType::kOpaque;
  if (!read) {
    // Narrow elements and blocks cannot be cut everywhere.
    require(read.error().code == ErrorCode::kInvalidSlice && (!is_valid || is_narrow),
            "a slice of what can be read cannot be read");
    return;
  }
  require(is_valid, "an impossible slice is read");
  if (is_narrow || whole.empty()) return;
  require(std::ranges::equal(*read, pick(whole, shape, axes, dtype_bits(tensor.dtype()) / 8)),
          "a slice differs from the whole");
}

}  // namespace
}  // namespace espalier::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace espalier;
  const auto file = fuzz::copy_input(data, size);
  const auto checkpoint = fuzz::open_any(file);
  if (!checkpoint || !fuzz::is_one_file(*checkpoint)) return 0;
  testing::Random random(hash128(file).low);
  for (std::uint32_t i = 0; i < checkpoint->tensor_count(); ++i) {
    const TensorRef tensor = checkpoint->tensor(i);
    if (tensor.is_placeholder()) continue;
    const auto whole = testing::read_tensor(file, tensor);
    if (!whole) {
      fuzz::require(whole.error().code == ErrorCode::kChunkCorrupt ||
                        whole.error().code == ErrorCode::kBaseMismatch,
                    "what could be opened cannot be read");
      continue;
    }
    fuzz::require(whole->size() == tensor.bytes(), "a tensor has another size");
    fuzz::read_slice(file, tensor, *whole, random);
  }
  return 0;
}
