#include "espalier/read/totals.h"

#include <array>
#include <set>
#include <span>

#include "support/memory_file.h"
#include "support/random_tree.h"
#include <doctest/doctest.h>

namespace espalier {
namespace {

// Adds up node by node.
void add_below(const NodeRef& node, std::set<std::uint32_t>& seen, Totals& totals) {
  const auto tensor = node.tensor();
  if (tensor && seen.insert(tensor->number()).second) {
    ++totals.tensors;
    if (!tensor->is_placeholder()) {
      totals.elements += tensor->elements();
      totals.bytes += tensor->bytes();
      totals.stored += tensor->stored_bytes();
    }
  }
  for (std::uint32_t i = 0; i < node.size(); ++i) add_below(node.child(i), seen, totals);
}

TEST_CASE("The totals of every subtree are those of its nodes, tied tensors counted once") {
  std::uint64_t tensors = 0;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    CAPTURE(seed);
    const auto file = testing::write_file(testing::RandomTree(seed).state());
    REQUIRE(file);
    const auto checkpoint = testing::open_file(*file);
    REQUIRE(checkpoint);
    SubtreeTotals subtrees(*checkpoint);
    const auto nodes = static_cast<std::uint32_t>(checkpoint->catalog().tables().nodes.size());
    for (std::uint32_t i = 0; i < nodes; ++i) {
      const NodeRef node(&checkpoint->catalog(), i);
      std::set<std::uint32_t> seen;
      Totals expected;
      add_below(node, seen, expected);
      const Totals totals = subtrees.of(node);
      REQUIRE(totals.tensors == expected.tensors);
      REQUIRE(totals.elements == expected.elements);
      REQUIRE(totals.bytes == expected.bytes);
      REQUIRE(totals.stored == expected.stored);
      Totals together;
      for (const Totals& of_dtype : subtrees.by_dtype(std::span(&node, 1))) {
        together.tensors += of_dtype.tensors;
        together.elements += of_dtype.elements;
        together.bytes += of_dtype.bytes;
        together.stored += of_dtype.stored;
      }
      REQUIRE(together.tensors == expected.tensors);
      REQUIRE(together.elements == expected.elements);
      REQUIRE(together.bytes == expected.bytes);
      REQUIRE(together.stored == expected.stored);
      tensors += totals.tensors;
    }
  }
  CHECK(tensors > 1000);
}

TEST_CASE(
    "A tensor that is tied within a subtree counts there once, and in each subtree of its own") {
  const Value shared = Value::tensor(
      {.dtype = DType::kU8, .shape = {3}, .data = TensorData::owned(std::vector<std::byte>(3))});
  const Value hole = Value::tensor({.dtype = DType::kF32, .shape = {5}});
  const auto file = testing::write_file(Value::list({
      Value::list({shared, shared}),
      Value::list({shared, hole}),
      Value::integer(1),
  }));
  REQUIRE(file);
  const auto checkpoint = testing::open_file(*file);
  REQUIRE(checkpoint);
  SubtreeTotals subtrees(*checkpoint);
  const auto check = [&](const NodeRef& node, std::uint64_t tensors, std::uint64_t bytes) {
    const Totals totals = subtrees.of(node);
    CHECK(totals.tensors == tensors);
    CHECK(totals.bytes == bytes);
    CHECK(totals.elements == bytes);
    CHECK(totals.stored == bytes);
  };
  const NodeRef root = checkpoint->state();
  check(root, 2, 3);
  check(root.child(0), 1, 3);
  check(root.child(0).child(1), 1, 3);
  check(root.child(1), 2, 3);
  check(root.child(1).child(1), 1, 0);
  check(root.child(2), 0, 0);

  const std::array several = {root.child(0), root.child(1), root.child(1)};
  CHECK(subtrees.of(several).tensors == 2);
  const auto by_dtype = subtrees.by_dtype(several);
  const auto row = [&](DType dtype) { return by_dtype[static_cast<std::size_t>(dtype)]; };
  CHECK(row(DType::kU8).tensors == 1);
  CHECK(row(DType::kU8).bytes == 3);
  CHECK(row(DType::kF32).tensors == 1);
  CHECK(row(DType::kF32).bytes == 0);
  CHECK(row(DType::kF16).tensors == 0);
}

}  // namespace
}  // namespace espalier
