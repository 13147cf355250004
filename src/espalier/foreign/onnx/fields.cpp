#include "espalier/foreign/onnx/fields.h"

#include <span>

namespace espalier {
namespace {

using Message = OnnxMessage;
using What = OnnxField::What;

constexpr OnnxField one(std::uint8_t number, What what) { return {number, what, true}; }
constexpr OnnxField many(std::uint8_t number, What what) { return {number, what, false}; }
constexpr OnnxField one(std::uint8_t number, Message message) {
  return {number, What::kMessage, true, message};
}
constexpr OnnxField many(std::uint8_t number, Message message) {
  return {number, What::kMessage, false, message};
}
constexpr OnnxField one(std::uint8_t number, OnnxNumbers numbers) {
  return {number, What::kData, true, {}, numbers};
}
constexpr OnnxField many(std::uint8_t number, OnnxNumbers numbers) {
  return {number, What::kData, false, {}, numbers};
}

constexpr OnnxField kModelFields[] = {
    one(1, What::kNumber),         // ir_version
    one(2, What::kText),           // producer_name
    one(3, What::kText),           // producer_version
    one(4, What::kText),           // domain
    one(5, What::kNumber),         // model_version
    one(6, What::kText),           // doc_string
    one(7, Message::kGraph),       // graph
    many(8, Message::kOpset),      // opset_import
    many(14, Message::kPair),      // metadata_props
    many(20, Message::kTraining),  // training_info
    many(25, Message::kFunction),  // functions
    many(26, What::kSkipped),      // configuration
};
constexpr OnnxField kGraphFields[] = {
    many(1, Message::kNode),     // node
    one(2, What::kText),         // name
    many(5, Message::kTensor),   // initializer
    one(10, What::kSkipped),     // doc_string
    many(11, What::kSkipped),    // input
    many(12, What::kSkipped),    // output
    many(13, What::kSkipped),    // value_info
    many(14, What::kSkipped),    // quantization_annotation
    many(15, Message::kSparse),  // sparse_initializer
    many(16, What::kSkipped),    // metadata_props
};
constexpr OnnxField kNodeFields[] = {
    many(1, What::kSkipped),       // input
    many(2, What::kText),          // output
    one(3, What::kText),           // name
    one(4, What::kText),           // op_type
    many(5, Message::kAttribute),  // attribute
    one(6, What::kSkipped),        // doc_string
    one(7, What::kText),           // domain
    one(8, What::kSkipped),        // overload
    many(9, What::kSkipped),       // metadata_props
    many(10, What::kSkipped),      // device_configurations
};
constexpr OnnxField kAttributeFields[] = {
    one(1, What::kText),            // name
    one(2, OnnxNumbers::kFloats),   // f
    one(3, OnnxNumbers::kInt64s),   // i
    one(4, What::kText),            // s
    one(5, Message::kTensor),       // t
    one(6, Message::kGraph),        // g
    many(7, OnnxNumbers::kFloats),  // floats
    many(8, OnnxNumbers::kInt64s),  // ints
    many(9, What::kText),           // strings
    many(10, Message::kTensor),     // tensors
    many(11, Message::kGraph),      // graphs
    one(13, What::kSkipped),        // doc_string
    one(14, What::kSkipped),        // tp
    many(15, What::kSkipped),       // type_protos
    one(20, What::kNumber),         // type
    one(21, What::kSkipped),        // ref_attr_name
    one(22, Message::kSparse),      // sparse_tensor
    many(23, Message::kSparse),     // sparse_tensors
};
constexpr OnnxField kTensorFields[] = {
    many(1, What::kDims),             // dims
    one(2, What::kNumber),            // data_type
    one(3, What::kSkipped),           // segment
    many(4, OnnxNumbers::kFloats),    // float_data
    many(5, OnnxNumbers::kInt32s),    // int32_data
    many(6, What::kText),             // string_data
    many(7, OnnxNumbers::kInt64s),    // int64_data
    one(8, What::kText),              // name
    one(9, What::kRaw),               // raw_data
    many(10, OnnxNumbers::kDoubles),  // double_data
    many(11, OnnxNumbers::kUint64s),  // uint64_data
    one(12, What::kSkipped),          // doc_string
    many(13, Message::kPair),         // external_data
    one(14, What::kNumber),           // data_location
    many(16, What::kSkipped),         // metadata_props
};
constexpr OnnxField kSparseFields[] = {
    one(1, Message::kTensor),  // values
    one(2, Message::kTensor),  // indices
    many(3, What::kDims),      // dims
};
constexpr OnnxField kFunctionFields[] = {
    one(1, What::kText),            // name
    many(4, What::kSkipped),        // input
    many(5, What::kSkipped),        // output
    many(6, What::kSkipped),        // attribute
    many(7, Message::kNode),        // node
    one(8, What::kSkipped),         // doc_string
    many(9, What::kSkipped),        // opset_import
    one(10, What::kText),           // domain
    many(11, Message::kAttribute),  // attribute_proto
    many(12, What::kSkipped),       // value_info
    one(13, What::kText),           // overload
    many(14, What::kSkipped),       // metadata_props
};
constexpr OnnxField kTrainingFields[] = {
    one(1, Message::kGraph),  // initialization
    one(2, Message::kGraph),  // algorithm
    many(3, What::kSkipped),  // initialization_binding
    many(4, What::kSkipped),  // update_binding
};
constexpr OnnxField kPairFields[] = {
    one(1, What::kText),  // key
    one(2, What::kText),  // value
};
constexpr OnnxField kOpsetFields[] = {
    one(1, What::kText),    // domain
    one(2, What::kNumber),  // version
};

struct Fields {
  const OnnxField* first;
  std::size_t count;
};
template <std::size_t kCount>
constexpr Fields all(const OnnxField (&fields)[kCount]) {
  return {fields, kCount};
}
// By OnnxMessage.
constexpr Fields kMessages[] = {
    all(kModelFields),  all(kGraphFields),  all(kNodeFields),     all(kAttributeFields),
    all(kTensorFields), all(kSparseFields), all(kFunctionFields), all(kTrainingFields),
    all(kPairFields),   all(kOpsetFields),
};
constexpr OnnxField kUnknownField;

}  // namespace

bool OnnxField::takes(WireType type) const {
  switch (what) {
    case What::kUnknown:
      return true;
    case What::kSkipped:
    case What::kMessage:
    case What::kText:
    case What::kRaw:
      return type == WireType::kBytes;
    case What::kNumber:
      return type == WireType::kVarint;
    case What::kDims:
    case What::kData:
      break;
  }
  if (type == WireType::kBytes) return !is_single;
  if (numbers == OnnxNumbers::kFloats) return type == WireType::kFixed32;
  return type == (numbers == OnnxNumbers::kDoubles ? WireType::kFixed64 : WireType::kVarint);
}

const OnnxField& onnx_field(OnnxMessage message, std::uint32_t number) {
  const Fields fields = kMessages[static_cast<std::size_t>(message)];
  for (const OnnxField& field : std::span(fields.first, fields.count)) {
    if (field.number == number) return field;
  }
  return kUnknownField;
}

}  // namespace espalier
