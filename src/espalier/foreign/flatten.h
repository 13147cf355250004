// Flattens a nested tree to names, and lists what flat names cannot express.
#ifndef ESPALIER_FOREIGN_FLATTEN_H_
#define ESPALIER_FOREIGN_FLATTEN_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "espalier/base/error.h"
#include "espalier/base/limits.h"
#include "espalier/tree/value.h"

namespace espalier {

/// A tensor and its flat name.
struct FlatTensor {
  /// The keys on its path, joined with '.'. Int keys and positions are decimals.
  std::string name;
  /// The same as a printed key path.
  std::string path;
  /// Shared by all nodes that are tied to it.
  std::shared_ptr<const Tensor> tensor;
};

/// A value in a tree that a target format cannot hold.
struct Loss {
  /// Printed key path of the node; below "(metadata)" for metadata.
  std::string path;
  /// A noun with its article, "an int64", "a label", or what changes: "int keys become text".
  std::string what;
};

/// A count of losses, and the first of them: a state may have millions.
class Losses {
 public:
  static constexpr std::size_t kKept = 8;

  void add(std::string_view path, std::string what) {
    if (first_.size() < kKept) first_.push_back({std::string(path), std::move(what)});
    ++count_;
  }
  std::uint64_t count() const { return count_; }
  bool empty() const { return count_ == 0; }
  const std::vector<Loss>& first() const { return first_; }
  /// "a/b (an int64), c (a label) and 12 more". Printable: paths are escaped.
  std::string to_string() const;

 private:
  std::uint64_t count_ = 0;
  std::vector<Loss> first_;
};

/// A state as flat names.
struct FlatState {
  /// In tree order. Tied nodes have one entry each, with the same tensor. No placeholders.
  std::vector<FlatTensor> tensors;
  /// Everything except tensors in nested dicts with text keys: other values and containers, int
  /// keys, labels, empty containers, placeholders, ties.
  Losses losses;
};

/// Flattens `state`. kNameCollision, naming both key paths, if two tensors get the same name;
/// kInvalidTree if a key is not UTF-8 or a tensor was moved away; kLimitExceeded if the tree is
/// deeper than `limits.depth`; kUnrepresentable if all names together have more than `name_bytes`
/// bytes, the target format's limit.
[[nodiscard]] Result<FlatState> flatten(const Value& state, std::uint64_t name_bytes,
                                        const Limits& limits = {});

}  // namespace espalier

#endif  // ESPALIER_FOREIGN_FLATTEN_H_
