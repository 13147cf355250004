// Every slice is compared with one taken element by element.
#include "espalier/read/plan.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "support/memory_file.h"
#include "support/random.h"
#include <doctest/doctest.h>

#include "espalier/dtype.h"

namespace espalier {
namespace {

using testing::Random;
using Bytes = std::vector<std::byte>;

// Indices that Python's range(*slice(start, stop, step).indices(axis)) gives.
std::vector<std::uint64_t> indices(const Slice& slice, std::uint64_t axis) {
  const auto length = static_cast<std::int64_t>(axis);
  const auto clamp = [&](std::int64_t index) {
    if (index < 0) index = index < -length ? 0 : index + length;
    return std::min(index, length);
  };
  std::vector<std::uint64_t> made;
  const std::int64_t stop = clamp(slice.stop.value_or(length));
  for (std::int64_t i = clamp(slice.start.value_or(0)); i < stop;) {
    made.push_back(static_cast<std::uint64_t>(i));
    if (slice.step > stop - i) break;
    i += slice.step;
  }
  return made;
}

struct Expected {
  std::vector<std::uint64_t> shape;
  Bytes bytes;
  std::set<std::uint32_t> chunks;  // numbers within the tensor
};

// `unit_bits` is the size of a selected unit: an element, or a whole block of the last axis.
Expected naive_slice(const Bytes& tensor, const std::vector<std::uint64_t>& shape,
                     const std::vector<Slice>& slices, std::uint64_t unit_bits,
                     std::uint64_t block_elements) {
  std::vector<std::vector<std::uint64_t>> selected;
  Expected expected;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    selected.push_back(indices(i < slices.size() ? slices[i] : Slice{}, shape[i]));
    expected.shape.push_back(selected.back().size());
  }
  // Every block by its first element.
  std::vector<std::uint64_t> units = shape;
  if (block_elements > 1 && !shape.empty()) {
    units.back() /= block_elements;
    std::vector<std::uint64_t> blocks;
    for (const std::uint64_t i : selected.back()) {
      if (i % block_elements == 0) blocks.push_back(i / block_elements);
    }
    selected.back() = blocks;
  }
  std::vector<std::uint64_t> positions = {0};
  for (std::size_t i = 0; i < units.size(); ++i) {
    std::vector<std::uint64_t> next;
    for (const std::uint64_t position : positions) {
      for (const std::uint64_t index : selected[i]) next.push_back(position * units[i] + index);
    }
    positions = std::move(next);
  }
  std::uint64_t filled = 0;
  expected.bytes.resize((positions.size() * unit_bits + 7) / 8);
  for (const std::uint64_t position : positions) {
    for (std::uint64_t bit = 0; bit < unit_bits; ++bit, ++filled) {
      const std::uint64_t from = position * unit_bits + bit;
      const auto value = (std::to_integer<unsigned>(tensor[from / 8]) >> (from % 8)) & 1u;
      expected.bytes[filled / 8] |= static_cast<std::byte>(value << (filled % 8));
      if (bit % 8 == 0 || from % 8 == 0) {
        expected.chunks.insert(static_cast<std::uint32_t>(from / 8 / kChunkBytes));
      }
    }
  }
  return expected;
}

Bytes random_bytes(Random& random, std::uint64_t size) {
  Bytes bytes(size);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random.bits());
  return bytes;
}

Slice random_slice(Random& random, std::uint64_t axis) {
  const auto length = static_cast<std::int64_t>(axis);
  Slice slice;
  if (!random.one_in(3)) slice.start = random.between(-length - 2, length + 2);
  if (!random.one_in(3)) slice.stop = random.between(-length - 2, length + 2);
  if (random.one_in(3)) slice.step = random.between(1, length + 2);
  if (random.one_in(40)) slice.start = std::numeric_limits<std::int64_t>::min();
  if (random.one_in(40)) slice.stop = std::numeric_limits<std::int64_t>::max();
  if (random.one_in(40)) slice.step = std::numeric_limits<std::int64_t>::max();
  return slice;
}

std::string describe(const Tensor& tensor, const std::vector<Slice>& slices) {
  std::string text(dtype_name(tensor.dtype));
  for (const std::uint64_t axis : tensor.shape) text += " " + std::to_string(axis);
  for (const Slice& slice : slices) {
    text += " [";
    if (slice.start) text += std::to_string(*slice.start);
    text += ":";
    if (slice.stop) text += std::to_string(*slice.stop);
    text += ":" + std::to_string(slice.step) + "]";
  }
  return text;
}

// Whether `slices` cut a block: the library must refuse exactly these.
bool cuts_blocks(const Tensor& tensor, const std::vector<Slice>& slices) {
  if (tensor.dtype != DType::kOpaque || slices.size() < tensor.shape.size()) return false;
  const auto last = indices(slices.back(), tensor.shape.back());
  if (last.empty()) return false;
  for (std::size_t i = 0; i < slices.size(); ++i) {
    if (indices(slices[i], tensor.shape[i]).empty()) return false;
  }
  if (last.size() == tensor.shape.back()) return false;
  return last.front() % tensor.block_elements != 0 || last.size() % tensor.block_elements != 0 ||
         (last.size() > 1 && slices.back().step != 1);
}

// Assembles the result like a caller without memory for all of it at once.
Bytes put_together(const Bytes& file, const ReadPlan& plan) {
  Bytes result(static_cast<std::size_t>(plan.bytes()));
  ChunkReader reader;
  Bytes scratch;
  for (std::size_t i = plan.chunks().size(); i-- > 0;) {
    const Extent stored = plan.chunks()[i].stored;
    const auto part =
        plan.open_part(i,
                       ByteSpan(file).subspan(static_cast<std::size_t>(stored.offset),
                                              static_cast<std::size_t>(stored.length)),
                       reader, scratch);
    REQUIRE(part);
    const Extent extent = plan.part_extent(i);
    REQUIRE(extent.offset == part->begin);
    REQUIRE(extent.length == part->bytes.size());
    REQUIRE(extent.offset + extent.length <= result.size());
    std::byte overlap{0};
    for (std::size_t at = 0; at < part->bytes.size(); ++at) {
      std::byte& byte = result[static_cast<std::size_t>(part->begin) + at];
      overlap |= byte;
      byte |= part->bytes[at];
    }
    // Only narrow elements may share a byte.
    if (plan.is_concurrent()) REQUIRE(overlap == std::byte{0});
  }
  return result;
}

void check_slices(const Tensor& tensor, const Bytes& contents, Random& random, int rounds) {
  const auto file = testing::write_file(Value::tensor(tensor));
  REQUIRE(file);
  const auto checkpoint = testing::open_file(*file);
  REQUIRE(checkpoint);
  const TensorRef ref = *checkpoint->state().tensor();
  const bool opaque = tensor.dtype == DType::kOpaque;
  const std::uint64_t unit_bits = opaque ? 8 * tensor.block_bytes : dtype_bits(tensor.dtype);
  for (int round = 0; round < rounds; ++round) {
    std::vector<Slice> slices;
    for (std::size_t i = random.below(tensor.shape.size() + 1); i > 0; --i) {
      slices.push_back(random_slice(random, tensor.shape[slices.size()]));
    }
    if (opaque && slices.size() == tensor.shape.size() && !slices.empty() && !random.one_in(4)) {
      // Mostly at whole blocks.
      slices.back().step = 1;
      for (auto* end : {&slices.back().start, &slices.back().stop}) {
        if (*end) *end = **end / tensor.block_elements * tensor.block_elements;
      }
    }
    CAPTURE(describe(tensor, slices));
    const auto plan = ReadPlan::make(ref, slices);
    if (cuts_blocks(tensor, slices)) {
      REQUIRE_FALSE(plan);
      CHECK(plan.error().code == ErrorCode::kInvalidSlice);
      continue;
    }
    REQUIRE(plan);
    const Expected expected =
        naive_slice(contents, tensor.shape, slices, unit_bits, opaque ? tensor.block_elements : 1);
    REQUIRE(plan->shape() == expected.shape);
    REQUIRE(plan->bytes() == expected.bytes.size());
    std::set<std::uint32_t> chunks;
    for (std::size_t i = 0; i < plan->chunks().size(); ++i) {
      chunks.insert(plan->chunks()[i].chunk - ref.first_chunk());
      if (i > 0) REQUIRE(plan->chunks()[i - 1].chunk < plan->chunks()[i].chunk);
    }
    REQUIRE(chunks == expected.chunks);
    const auto read = testing::read_tensor(*file, ref, slices);
    REQUIRE(read);
    REQUIRE(*read == expected.bytes);
    REQUIRE(put_together(*file, *plan) == expected.bytes);
    for (std::size_t i = 0; i < plan->chunks().size(); ++i) {
      // A chunk that may be read in place is in the result unchanged.
      const PlannedChunk& chunk = plan->chunks()[i];
      if (const auto at = plan->direct_offset(i)) {
        REQUIRE(*at + chunk.length <= expected.bytes.size());
        REQUIRE(std::equal(expected.bytes.begin() + static_cast<std::ptrdiff_t>(*at),
                           expected.bytes.begin() + static_cast<std::ptrdiff_t>(*at + chunk.length),
                           contents.begin() + static_cast<std::ptrdiff_t>(chunk.begin)));
      }
    }
  }
}

Tensor make_tensor(DType dtype, std::vector<std::uint64_t> shape, std::uint32_t block_elements,
                   std::uint32_t block_bytes, Random& random, Bytes& contents) {
  Tensor tensor;
  tensor.dtype = dtype;
  tensor.shape = std::move(shape);
  if (dtype == DType::kOpaque) {
    tensor.block_name = "q";
    tensor.block_elements = block_elements;
    tensor.block_bytes = block_bytes;
  }
  const auto size = tensor_bytes(dtype, tensor.shape, tensor.block());
  REQUIRE(size);
  contents = random_bytes(random, *size);
  tensor.data = TensorData::owned(contents);
  return tensor;
}

TEST_CASE("Slices of small tensors are those taken element by element") {
  Random random(11);
  for (int round = 0; round < 1200; ++round) {
    const auto dtype = static_cast<DType>(1 + random.below(kLastDType));
    std::vector<std::uint64_t> shape;
    for (std::uint64_t axes = random.below(5); axes > 0; --axes) {
      shape.push_back(random.one_in(15) ? 0 : 1 + random.below(7));
    }
    const auto elements = static_cast<std::uint32_t>(1 + random.below(4));
    const auto bytes = static_cast<std::uint32_t>(1 + random.below(5));
    if (dtype == DType::kOpaque) shape.push_back(elements * (1 + random.below(5)));
    if (dtype_bits(dtype) % 8 != 0) {
      // Any one axis may make the bits whole bytes; so rows may begin within a byte.
      if (shape.empty()) shape.push_back(4);
      shape[static_cast<std::size_t>(random.below(shape.size()))] *= 4;
    }
    Bytes contents;
    const Tensor tensor = make_tensor(dtype, shape, elements, bytes, random, contents);
    check_slices(tensor, contents, random, 8);
  }
}

TEST_CASE("Slices of tensors of several chunks need only the chunks that they touch") {
  Random random(12);
  struct Large {
    DType dtype;
    std::vector<std::uint64_t> shape;
  };
  for (const Large& large : std::vector<Large>{{DType::kF32, {1000, 700}},
                                               {DType::kU8, {3 * kChunkBytes + 17}},
                                               {DType::kF64, {7, 11, 13, 401}},
                                               {DType::kI16, {4, 524288}},
                                               {DType::kC128, {70000, 3}},
                                               {DType::kI4, {3, 1500001, 2}},
                                               {DType::kF6E2M3FN, {1201, 1700}},
                                               {DType::kOpaque, {300, 600}}}) {
    Bytes contents;
    const Tensor tensor = make_tensor(large.dtype, large.shape, 20, 250, random, contents);
    REQUIRE(contents.size() > kChunkBytes);
    check_slices(tensor, contents, random, 6);
    // A few rows out of many: most chunks are left alone.
    const auto file = testing::write_file(Value::tensor(tensor));
    const auto checkpoint = testing::open_file(*file);
    const std::vector<Slice> first = {{0, 1, 1}};
    const auto plan = ReadPlan::make(*checkpoint->state().tensor(), first);
    REQUIRE(plan);
    CHECK(plan->chunks().size() < checkpoint->state().tensor()->chunk_count());
  }
}

TEST_CASE("The rest of the last byte of a slice of narrow elements is zero") {
  Tensor tensor;
  tensor.dtype = DType::kU4;
  tensor.shape = {4};
  tensor.data = TensorData::owned(testing::bytes_of<unsigned char>({0x21, 0x43}));
  const auto file = testing::write_file(Value::tensor(tensor));
  REQUIRE(file);
  const auto checkpoint = testing::open_file(*file);
  const std::vector<Slice> last = {{3, 4, 1}};
  const auto read = testing::read_tensor(*file, *checkpoint->state().tensor(), last);
  REQUIRE(read);
  CHECK(*read == testing::bytes_of<unsigned char>({0x04}));
}

TEST_CASE("Impossible reads are refused") {
  Tensor tensor;
  tensor.dtype = DType::kF32;
  tensor.shape = {2, 3};
  tensor.data = TensorData::owned(Bytes(24));
  Tensor hole = tensor;
  hole.data = TensorData();
  const auto file = testing::write_file(Value::list({Value::tensor(tensor), Value::tensor(hole)}));
  REQUIRE(file);
  const auto checkpoint = testing::open_file(*file);
  const TensorRef ref = *checkpoint->state().at("0")->tensor();
  const auto code = [&](const std::vector<Slice>& slices) {
    const auto plan = ReadPlan::make(ref, slices);
    return plan ? "" : std::string(to_string(plan.error().code));
  };
  CHECK(code({{}, {}}) == "");
  CHECK(code({{}, {}, {}}) == "invalid_slice");
  CHECK(code({{{}, {}, 0}}) == "invalid_slice");
  CHECK(code({{}, {{}, {}, -1}}) == "invalid_slice");
  const auto placeholder = ReadPlan::make(*checkpoint->state().at("1")->tensor());
  REQUIRE_FALSE(placeholder);
  CHECK(placeholder.error().code == ErrorCode::kWrongKind);

  const auto plan = ReadPlan::make(ref);
  REQUIRE(plan);
  Bytes small(23);
  const auto stored = ByteSpan(*file).subspan(plan->chunks()[0].stored.offset, 24);
  ChunkReader reader;
  auto delivered = plan->deliver(0, stored, small, reader);
  REQUIRE_FALSE(delivered);
  CHECK(delivered.error().code == ErrorCode::kInvalidArgument);
  Bytes out(24);
  delivered = plan->deliver(0, stored.first(23), out, reader);
  REQUIRE_FALSE(delivered);
  CHECK(delivered.error().code == ErrorCode::kTruncated);
  CHECK(delivered.error().path == "0");
}

TEST_CASE("A damaged chunk is refused before its bytes are returned") {
  Tensor tensor;
  tensor.dtype = DType::kU8;
  tensor.shape = {2 * kChunkBytes};
  tensor.data = TensorData::owned(Bytes(2 * kChunkBytes, std::byte{1}));
  auto file = testing::write_file(Value::dict({{"w", Value::tensor(tensor)}}));
  REQUIRE(file);
  const auto checkpoint = testing::open_file(*file);
  const auto plan = ReadPlan::make(*checkpoint->state().at("w")->tensor());
  REQUIRE(plan);
  const Extent& second = plan->chunks()[1].stored;
  (*file)[second.offset + 9] ^= std::byte{0x40};
  Bytes out(plan->bytes(), std::byte{7});
  ChunkReader reader;
  const auto delivered =
      plan->deliver(1, ByteSpan(*file).subspan(second.offset, second.length), out, reader);
  REQUIRE_FALSE(delivered);
  CHECK(delivered.error().code == ErrorCode::kChunkCorrupt);
  CHECK(delivered.error().path == "w");
  CHECK(delivered.error().offset == second.offset);
  CHECK(std::all_of(out.begin(), out.end(), [](std::byte byte) { return byte == std::byte{7}; }));
}

}  // namespace
}  // namespace espalier
