#include <optional>
#include <vector>

#include <doctest/doctest.h>

#include "espalier/base/checked.h"
#include "espalier/dtype.h"

namespace espalier {
namespace {

constexpr std::uint64_t kHuge = std::uint64_t{1} << 63;
constexpr std::uint64_t kMax = ~std::uint64_t{0};
using Shape = std::vector<std::uint64_t>;

TEST_CASE("Checked arithmetic fails where plain arithmetic wraps") {
  CHECK(checked_add(kMax - 1, 1) == kMax);
  CHECK_FALSE(checked_add(kMax, 1));
  CHECK(checked_mul(kMax, 1) == kMax);
  CHECK(checked_mul(0, kMax) == 0);
  CHECK(checked_mul(kMax, 0) == 0);
  CHECK_FALSE(checked_mul(std::uint64_t{1} << 32, std::uint64_t{1} << 32));
  CHECK(checked_align(0, 64) == 0);
  CHECK(checked_align(1, 64) == 64);
  CHECK(checked_align(64, 64) == 64);
  CHECK(checked_align(kMax - 63, 64) == kMax - 63);
  CHECK_FALSE(checked_align(kMax - 62, 64));
  CHECK(range_fits(0, 0, 0));
  CHECK(range_fits(3, 2, 5));
  CHECK_FALSE(range_fits(3, 3, 5));
  CHECK_FALSE(range_fits(6, 0, 5));
  CHECK_FALSE(range_fits(kMax, 2, 5));
}

TEST_CASE("The elements of a shape") {
  CHECK(shape_elements({}) == 1);
  CHECK(shape_elements(Shape{7}) == 7);
  CHECK(shape_elements(Shape{2, 3, 4}) == 24);
  CHECK(shape_elements(Shape{2, 0, 4}) == 0);
  // Empty, wherever the 0 stands, and not an overflow.
  CHECK(shape_elements(Shape{kHuge, kHuge, 0}) == 0);
  CHECK(shape_elements(Shape{0, kHuge, kHuge}) == 0);
  CHECK_FALSE(shape_elements(Shape{kHuge, 2}));
  CHECK(shape_elements(Shape{kMax}) == kMax);
}

TEST_CASE("The bytes of a tensor") {
  CHECK(tensor_bytes(DType::kF32, {}).value_or(99) == 4);
  CHECK(tensor_bytes(DType::kC128, Shape{3}).value_or(99) == 48);
  CHECK(tensor_bytes(DType::kBF16, Shape{3, 5}).value_or(99) == 30);
  CHECK(tensor_bytes(DType::kI4, Shape{2, 3}).value_or(99) == 3);
  CHECK(tensor_bytes(DType::kU2, Shape{8}).value_or(99) == 2);
  CHECK(tensor_bytes(DType::kF6E2M3FN, Shape{4}).value_or(99) == 3);
  CHECK(tensor_bytes(DType::kF6E3M2FN, Shape{12}).value_or(99) == 9);
  CHECK(tensor_bytes(DType::kF6E3M2FN, Shape{8, 5}).value_or(99) == 30);
  CHECK(tensor_bytes(DType::kF64, Shape{0, kMax}).value_or(99) == 0);
}

TEST_CASE("Sub-byte tensors fill whole bytes") {
  for (const Shape& shape : {Shape{}, Shape{1}, Shape{3}, Shape{5, 1}}) {
    CHECK_FALSE(tensor_bytes(DType::kI4, shape));
    CHECK_FALSE(tensor_bytes(DType::kF6E2M3FN, shape));
    CHECK_FALSE(tensor_bytes(DType::kU2, shape));
  }
  CHECK_FALSE(tensor_bytes(DType::kF6E2M3FN, Shape{2}));
  CHECK_FALSE(tensor_bytes(DType::kU2, Shape{6}));
  CHECK(tensor_bytes(DType::kI4, Shape{0}).value_or(99) == 0);
}

TEST_CASE("A tensor has less than 2^63 bytes") {
  CHECK(tensor_bytes(DType::kU8, Shape{kHuge - 1}).value_or(0) == kHuge - 1);
  for (const auto& [dtype, elements] : std::vector<std::pair<DType, std::uint64_t>>{
           {DType::kU8, kHuge}, {DType::kF64, std::uint64_t{1} << 60}, {DType::kC128, kMax}}) {
    const auto bytes = tensor_bytes(dtype, Shape{elements});
    REQUIRE_FALSE(bytes);
    CHECK(bytes.error().code == ErrorCode::kTensorInvalid);
  }
  // Dividing before multiplying: the bits alone would not fit in 64 bits.
  CHECK(tensor_bytes(DType::kI4, Shape{kMax - 1}).value_or(0) == kHuge - 1);
}

TEST_CASE("Opaque tensors are made of whole blocks") {
  const BlockType block{"q4_0", 32, 18};
  CHECK(tensor_bytes(DType::kOpaque, Shape{64}, block).value_or(99) == 36);
  CHECK(tensor_bytes(DType::kOpaque, Shape{5, 32}, block).value_or(99) == 90);
  CHECK(tensor_bytes(DType::kOpaque, Shape{5, 0}, block).value_or(99) == 0);
  CHECK(tensor_bytes(DType::kOpaque, Shape{0, 32}, block).value_or(99) == 0);
  // The last axis, not the number of elements.
  CHECK_FALSE(tensor_bytes(DType::kOpaque, Shape{32, 5}, block));
  CHECK_FALSE(tensor_bytes(DType::kOpaque, Shape{0, 33}, block));
  CHECK_FALSE(tensor_bytes(DType::kOpaque, Shape{}, {"one", 1, 1}));
  CHECK_FALSE(tensor_bytes(DType::kOpaque, Shape{64}, {"none", 0, 18}));
  CHECK_FALSE(tensor_bytes(DType::kOpaque, Shape{64}, {"none", 32, 0}));
  CHECK_FALSE(tensor_bytes(DType::kOpaque, Shape{kHuge}, {"large", 1, 0xFFFFFFFF}));
}

TEST_CASE("A tensor's chunks") {
  CHECK(chunk_count(0) == 0);
  CHECK(chunk_count(1) == 1);
  CHECK(chunk_count(kChunkBytes) == 1);
  CHECK(chunk_count(kChunkBytes + 1) == 2);
  CHECK(chunk_count(kMax) == (std::uint64_t{1} << 44));
  CHECK(chunk_length(kChunkBytes + 1, 0) == kChunkBytes);
  CHECK(chunk_length(kChunkBytes + 1, 1) == 1);
  CHECK(chunk_length(2 * kChunkBytes, 1) == kChunkBytes);
}

}  // namespace
}  // namespace espalier
