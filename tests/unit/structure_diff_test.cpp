#include "espalier/report/structure_diff.h"

#include <vector>

#include "../support/memory_file.h"
#include <doctest/doctest.h>

namespace espalier {
namespace {

Checkpoint open(const Value& state) {
  const auto file = testing::write_file(state);
  REQUIRE(file);
  auto checkpoint = testing::open_file(*file);
  REQUIRE(checkpoint);
  return std::move(*checkpoint);
}

Value tensor(std::initializer_list<float> values) {
  Tensor tensor;
  tensor.dtype = DType::kF32;
  tensor.shape = {values.size()};
  tensor.data = TensorData::owned(testing::bytes_of(values));
  return Value::tensor(std::move(tensor));
}

TEST_CASE("A comparison counts equal tensors and gives the nodes of the others") {
  const Checkpoint a =
      open(Value::dict({{"same", tensor({1})}, {"w", tensor({2})}, {"x", tensor({})}}));
  const Checkpoint b =
      open(Value::dict({{"same", tensor({1})}, {"w", tensor({3})}, {"x", tensor({})}}));
  const auto diff = compare_structure(a, b, {}, {});
  REQUIRE(diff);
  CHECK(diff->equal_tensors == 2);
  REQUIRE(diff->differences.size() == 1);
  CHECK(diff->differences[0].change == Change::kData);
  CHECK(diff->differences[0].a == a.state().at("w")->number());
  CHECK(diff->differences[0].b == b.state().at("w")->number());
}

}  // namespace
}  // namespace espalier
