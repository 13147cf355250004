// Plans a safetensors file for a state: its header, and the offset of each tensor.
//
//   auto plan = plan_safetensors(state, metadata);
//   if (!plan) return plan.error();
//   write(0, plan->header);
//   for (const auto& tensor : plan->tensors) write(tensor.extent.offset, read(tensor.data));
//
// The planner does no I/O and reads no tensor. The file is byte for byte the one that the reference
// library (`safetensors.serialize`) writes for the same tensors and metadata, with one exception:
// the library shuffles several metadata pairs, and this writer keeps their order.
#ifndef ESPALIER_FOREIGN_SAFETENSORS_WRITER_H_
#define ESPALIER_FOREIGN_SAFETENSORS_WRITER_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "espalier/bytes.h"
#include "espalier/dtype.h"
#include "espalier/error.h"
#include "espalier/limits.h"
#include "espalier/unrepresentable.h"
#include "espalier/value.h"

namespace espalier {

/// The end of the message if values cannot be held. Programs whose users know no C++ put the names
/// of their own options in its place.
inline constexpr std::string_view kUnrepresentableHint =
    "; carry the whole tree in the file's metadata (Unrepresentable::kMetadata), or leave out what "
    "does not fit (Unrepresentable::kDrop)";

struct SafetensorsOptions {
  Unrepresentable unrepresentable = Unrepresentable::kError;
  Limits limits = {};
};

/// A tensor as it is stored in the file.
struct SafetensorsTensor {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<std::uint64_t> shape;
  TensorData data;
  /// The bytes of the tensor in the file; may be empty.
  Extent extent;
};

/// A whole safetensors file except for the bytes of its tensors.
struct SafetensorsPlan {
  /// The first bytes of the file: the header's length and the header.
  std::vector<std::byte> header;
  /// In file order: each extent begins where the one before it, or the header, ends.
  std::vector<SafetensorsTensor> tensors;
  std::uint64_t file_length = 0;
  /// Values that kDrop left out.
  Losses dropped;
  /// Whether the metadata carries the tree.
  bool carries_tree = false;
};

/// Plans the file. `metadata` is a dict, or null for none. A tree is carried (kMetadata) only if
/// reading the file would not give the same state and metadata, key order included.
///
/// kUnrepresentable if the policy is kError and safetensors cannot hold a value, or if the header
/// would exceed the specification's 100,000,000 bytes; kNameCollision if two tensors get one name,
/// or a name is reserved; kInvalidTree for texts that are not UTF-8 and tensors whose data do not
/// fit their shape; kLimitExceeded for a tree deeper than `limits.depth`.
[[nodiscard]] Result<SafetensorsPlan> plan_safetensors(const Value& state, const Value& metadata,
                                                       const SafetensorsOptions& options = {});

}  // namespace espalier

#endif  // ESPALIER_FOREIGN_SAFETENSORS_WRITER_H_
