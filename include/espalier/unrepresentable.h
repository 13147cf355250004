// What other formats cannot hold of a state, and what becomes of it.
#ifndef ESPALIER_UNREPRESENTABLE_H_
#define ESPALIER_UNREPRESENTABLE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "espalier/error.h"
#include "espalier/limits.h"
#include "espalier/value.h"

namespace espalier {

/// What to do with values that safetensors cannot hold. It can hold tensors of its own dtypes in
/// nested dicts with text keys and without labels, and text metadata. docs/safetensors.md has the
/// list.
enum class Unrepresentable : std::uint8_t {
  /// Fail with kUnrepresentable; the message names the first values.
  kError,
  /// Leave them out and return them as Losses. Tied tensors are written once for each node.
  kDrop,
  /// Carry the whole tree in the file's metadata, so that restore_carried() restores it exactly.
  /// Tensors of other dtypes are stored as plain bytes (U8), tied tensors once.
  kMetadata,
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

  void add(std::string_view path, std::string what);
  std::uint64_t count() const { return count_; }
  bool empty() const { return count_ == 0; }
  const std::vector<Loss>& first() const { return first_; }
  /// "a/b (an int64), c (a label) and 12 more". Printable: paths are escaped.
  std::string to_string() const;

 private:
  std::uint64_t count_ = 0;
  std::vector<Loss> first_;
};

/// A state and its metadata as they were before the save.
struct CarriedState {
  Value state;
  Value metadata;
};

/// Gives back a state that was carried (Unrepresentable::kMetadata). `flat` is the dict of tensors
/// that the file holds, and `metadata` its metadata, including the carried tree. The result is
/// exact: key order, kinds, labels, ties, the bits of floats. It shares the data of the tensors of
/// `flat`. nullopt if the metadata carries no tree.
///
/// kSafetensorsInvalid if the text is not a carried tree (also if a container has the same key
/// twice) or does not fit the tensors (a tensor is unused or missing, or is described in two ways);
/// kUnsupportedVersion for a version other than 1; kLimitExceeded for more nodes, depth or digits
/// than `limits` allows. Takes up to some fifty times the text's length of memory.
[[nodiscard]] Result<std::optional<CarriedState>> restore_carried(const Value& flat,
                                                                  const Value& metadata,
                                                                  const Limits& limits = {});

}  // namespace espalier

#endif  // ESPALIER_UNREPRESENTABLE_H_
