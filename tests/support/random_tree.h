// Random state trees that use all that the format has.
#ifndef ESPALIER_TESTS_SUPPORT_RANDOM_TREE_H_
#define ESPALIER_TESTS_SUPPORT_RANDOM_TREE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "support/random.h"

#include "espalier/value.h"

namespace espalier::testing {

/// Makes trees of every kind and dtype: int keys and text keys that look alike, odd texts, labels,
/// names of axes, opaque blocks, ties, placeholders, empty and 0-d tensors, empty containers, big
/// ints, NaN with payloads, -0.0. One generator makes one state and its metadata; the seed decides
/// all.
class RandomTree {
 public:
  /// `large`: with one tensor of several chunks.
  explicit RandomTree(std::uint64_t seed, bool large = false) : random_(seed), large_(large) {}

  Value state();
  /// A dict without tensors.
  Value metadata();

 private:
  Value value(unsigned depth);
  Value scalar();
  Value container(unsigned depth);
  Value element_of_set();
  Value tensor();
  std::shared_ptr<const Tensor> new_tensor();
  BigInt big_int();
  double real();
  std::string text();
  Key key();
  std::vector<Value::Item> items(unsigned depth, bool only_text);
  std::vector<Value> elements(unsigned depth);
  std::size_t child_count();

  Random random_;
  bool large_;
  bool tensors_allowed_ = true;
  std::size_t budget_ = 0;
  std::vector<std::shared_ptr<const Tensor>> tensors_;
};

/// `value` with the children of every dict and record, and of every set, in another order.
Value shuffled(const Value& value, Random& random);

}  // namespace espalier::testing

#endif  // ESPALIER_TESTS_SUPPORT_RANDOM_TREE_H_
