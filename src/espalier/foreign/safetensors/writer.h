// Plans a safetensors file for a state: its header, and where each tensor's bytes go.
//
//   auto plan = plan_safetensors(state, metadata);
//   if (!plan) return plan.error();
//   write(0, plan->header);
//   for (const auto& tensor : plan->tensors) write(tensor.extent.offset, read(tensor.data));
//
// The planner does no I/O and reads no tensor. The file is the one that the reference library
// (`safetensors.serialize`) writes for the same tensors and metadata, byte for byte, except that
// the library shuffles metadata of several pairs and this writer keeps their order.
#ifndef ESPALIER_FOREIGN_SAFETENSORS_WRITER_H_
#define ESPALIER_FOREIGN_SAFETENSORS_WRITER_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "espalier/base/error.h"
#include "espalier/base/extent.h"
#include "espalier/base/limits.h"
#include "espalier/foreign/flatten.h"
#include "espalier/tree/dtype.h"
#include "espalier/tree/value.h"

namespace espalier {

/// What to do with what safetensors cannot hold: all but nested dicts, with text keys and without
/// labels, of tensors of its own dtypes; and all metadata but texts. docs/safetensors.md has the
/// list.
enum class Unrepresentable : std::uint8_t {
  /// Fail with kUnrepresentable; the message names the first of them.
  kError,
  /// Leave it out and list it in the plan. Tied tensors are written once for each node.
  kDrop,
  /// Carry the whole tree in the file's metadata, so that restore_carried() gives it back exactly.
  /// Tensors of other dtypes are stored as plain bytes (U8), tied tensors once.
  kMetadata,
};

struct SafetensorsOptions {
  Unrepresentable unrepresentable = Unrepresentable::kError;
  Limits limits = {};
};

/// A tensor of the file, as it is stored.
struct SafetensorsTensor {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<std::uint64_t> shape;
  TensorData data;
  /// Where its bytes go; may be empty.
  Extent extent;
};

/// A whole safetensors file but for the bytes of its tensors.
struct SafetensorsPlan {
  /// The first bytes of the file: the header's length and the header.
  std::vector<std::byte> header;
  /// In file order: each extent begins where the one before it, or the header, ends.
  std::vector<SafetensorsTensor> tensors;
  std::uint64_t file_length = 0;
  /// What kDrop left out.
  Losses dropped;
  /// Whether the metadata carries the tree.
  bool carries_tree = false;
};

/// Plans the file. `metadata` is a dict, or null for none. A tree is carried (kMetadata) only if
/// reading the file would not give the same state and metadata, key order included.
///
/// kUnrepresentable if the policy is kError and something cannot be held, or if the header would
/// pass the specification's 100,000,000 bytes; kNameCollision if two tensors get one name, or a
/// name is reserved; kInvalidTree for texts that are not UTF-8 and tensors whose data do not fit
/// their shape; kLimitExceeded for a tree deeper than `limits.depth`.
Result<SafetensorsPlan> plan_safetensors(const Value& state, const Value& metadata,
                                         const SafetensorsOptions& options = {});

}  // namespace espalier

#endif  // ESPALIER_FOREIGN_SAFETENSORS_WRITER_H_
