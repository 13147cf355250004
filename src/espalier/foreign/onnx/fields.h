// The messages of onnx.proto that are read, and what is done with each of their fields.
#ifndef ESPALIER_FOREIGN_ONNX_FIELDS_H_
#define ESPALIER_FOREIGN_ONNX_FIELDS_H_

#include <cstdint>

#include "espalier/foreign/common/protobuf.h"
#include "espalier/foreign/onnx/types.h"

namespace espalier {

enum class OnnxMessage : std::uint8_t {
  kModel,
  kGraph,
  kNode,
  kAttribute,
  kTensor,
  kSparse,
  kFunction,
  kTraining,
  kPair,   // StringStringEntryProto
  kOpset,  // OperatorSetIdProto
};

/// What one field has.
struct OnnxField {
  enum class What : std::uint8_t {
    kUnknown,
    /// Known, and a part of the graph, which is not read: its contents are gone over.
    kSkipped,
    kMessage,
    kText,
    kNumber,
    /// Any number of them: packed, or one in each field.
    kDims,
    kData,
    /// raw_data, which is gone over.
    kRaw,
  };

  std::uint8_t number = 0;
  What what = What::kUnknown;
  /// Whether there is at most one. Of two, programs take the first, the last or both.
  bool is_single = false;
  /// Of kMessage.
  OnnxMessage message = OnnxMessage::kModel;
  /// Of kData.
  OnnxNumbers numbers = OnnxNumbers::kNone;
  /// A bit for each WireType that it may have.
  std::uint8_t types = 0xFF;

  /// Whether a field of this type can have that.
  bool takes(WireType type) const { return (types >> static_cast<unsigned>(type) & 1) != 0; }
};

/// The field with that number in `message`; kUnknown if ONNX 1.23 has none.
const OnnxField& onnx_field(OnnxMessage message, std::uint32_t number);

}  // namespace espalier

#endif  // ESPALIER_FOREIGN_ONNX_FIELDS_H_
